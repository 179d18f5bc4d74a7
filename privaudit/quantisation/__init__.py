"""Product quantisation and multidimensional scaling: public building blocks, torch-free.

Protocols quantise with them, attacks and leakage metrics run the same public steps on what an
adversary holds.
"""

from __future__ import annotations

from privaudit.quantisation.kmeans import assign, lloyd
from privaudit.quantisation.mds import classical_mds, smacof, stress
from privaudit.quantisation.product import Layout, ProductQuantiser, train_quantiser
from privaudit.quantisation.upload import (
    SCALINGS,
    Scaling,
    UploadTable,
    decoded_upload,
    encode_upload,
    scaled_table,
)

__all__ = [
    "SCALINGS",
    "Layout",
    "ProductQuantiser",
    "Scaling",
    "UploadTable",
    "assign",
    "classical_mds",
    "decoded_upload",
    "encode_upload",
    "lloyd",
    "scaled_table",
    "smacof",
    "stress",
    "train_quantiser",
]
