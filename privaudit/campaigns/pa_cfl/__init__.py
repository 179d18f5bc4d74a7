"""The audit of PA-CFL: its plan of runs and attacks, its verdicts, its words."""

from privaudit.campaigns.pa_cfl.audit import check_inputs
from privaudit.campaigns.pa_cfl.config import AuditConfig as Config
from privaudit.campaigns.pa_cfl.perform import perform

__all__ = ["Config", "check_inputs", "perform"]
