"""Secure computation of inner products and sums: what protocols claim, and what they could use.

`pcsc` and `shared_key` compute inner products exactly and protect nothing; they are here to be
audited. `ckks`, `secret_sharing`, and `masking` are what a protocol could use instead, on vectors
from `quantisation`. `integers` holds arithmetic on arrays of big integers. Each is imported by its
own name; docs/secure-computation.md tells which does what, and what it costs.
"""
