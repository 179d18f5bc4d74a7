"""The audit of PA-CFL."""
