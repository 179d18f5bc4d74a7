"""What coalitions learn by pooling their views."""

from privaudit.attacks.collusion.coalitions import CoalitionClass, coalitions
from privaudit.attacks.collusion.recovery import RECOVERED, Recovery, Status, UpdateRecovery

__all__ = ["RECOVERED", "CoalitionClass", "Recovery", "Status", "UpdateRecovery", "coalitions"]
