"""The audit of PQ-MDS: its plan of runs and attacks, its verdicts, its words."""

from privaudit.campaigns.pq_mds.audit import check_inputs
from privaudit.campaigns.pq_mds.config import AuditConfig as Config
from privaudit.campaigns.pq_mds.perform import perform

__all__ = ["Config", "check_inputs", "perform"]
