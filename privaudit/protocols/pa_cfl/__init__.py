"""PA-CFL: privacy-preserving adaptive clustered federated learning with two servers."""

from privaudit.protocols.pa_cfl.config import PACFLConfig
from privaudit.protocols.pa_cfl.protocol import PACFL

__all__ = ["PACFL", "PACFLConfig"]
