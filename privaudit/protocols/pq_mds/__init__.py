"""PQ-MDS: one-shot vertical federated clustering by product quantisation and scaling."""
