"""The audit of DisUE: its plan of runs and attacks, its verdicts, its words."""

from privaudit.campaigns.disue.assemble import perform
from privaudit.campaigns.disue.audit import check_inputs
from privaudit.campaigns.disue.config import AuditConfig as Config

__all__ = ["Config", "check_inputs", "perform"]
