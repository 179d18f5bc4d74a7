"""The audit of DisUE: its plan of runs and attacks, its verdicts, its words."""

from privaudit.campaigns.disue.assemble import assemble
from privaudit.campaigns.disue.audit import check_inputs, run_audit
from privaudit.campaigns.disue.config import AuditConfig as Config

__all__ = ["Config", "assemble", "check_inputs", "run_audit"]
