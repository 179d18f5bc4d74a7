"""The DisUE protocol: clustered federated learning with data-free distillation."""
