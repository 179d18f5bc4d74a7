"""The DisUE protocol: clustered federated learning with data-free distillation."""

from privaudit.protocols.disue.config import DisUEConfig
from privaudit.protocols.disue.protocol import DisUE

__all__ = ["DisUE", "DisUEConfig"]
