"""PQ-MDS: one-shot vertical federated clustering by product quantisation and scaling."""

from privaudit.protocols.pq_mds.config import PQMDSConfig
from privaudit.protocols.pq_mds.protocol import PQMDS

__all__ = ["PQMDS", "PQMDSConfig"]
