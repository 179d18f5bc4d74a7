"""Kinds of messages of the undefended reference, FedAvg."""

from __future__ import annotations

from typing import Final

__all__ = ["GLOBAL_MODEL", "SERVER", "UPDATE"]

SERVER: Final = "server"
#: Server to each user: ``parameters`` (d,) float32.
GLOBAL_MODEL: Final = "global-model"
#: User to server: ``values`` (d,) float32, the accumulated update or the gradient;
#: ``records`` () int64, the size of the user's training set.
UPDATE: Final = "update"
