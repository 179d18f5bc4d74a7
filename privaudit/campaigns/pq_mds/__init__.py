"""The audit of PQ-MDS: its plan of runs and attacks, its verdicts, its words."""

from privaudit.campaigns.pq_mds.assemble import assemble
from privaudit.campaigns.pq_mds.audit import check_inputs, run_audit
from privaudit.campaigns.pq_mds.config import AuditConfig as Config

__all__ = ["Config", "assemble", "check_inputs", "run_audit"]
