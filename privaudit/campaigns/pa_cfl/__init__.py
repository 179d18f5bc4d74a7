"""The audit of PA-CFL: its plan of runs and attacks, its verdicts, its words."""

from privaudit.campaigns.pa_cfl.assemble import assemble
from privaudit.campaigns.pa_cfl.audit import check_inputs, run_audit
from privaudit.campaigns.pa_cfl.config import AuditConfig as Config

__all__ = ["Config", "assemble", "check_inputs", "run_audit"]
