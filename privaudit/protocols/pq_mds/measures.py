"""What is measured of a round for the report, and what is worth knowing of the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privaudit.datasets.vertical import VerticalData
from privaudit.protocols.pq_mds.config import PQMDSConfig
from privaudit.protocols.pq_mds.parties import Quantised
from privaudit.protocols.pq_mds.quality import (
    agreement,
    clustering_quality,
    influence_shares,
    normalised_error,
)
from privaudit.transcript import PartyId

__all__ = ["data_warnings", "measured"]

Labels = npt.NDArray[np.int64]


def measured(
    found: Labels,
    *,
    names: Sequence[PartyId],
    features: Sequence[npt.NDArray[np.float32]],
    quantised: Sequence[Quantised],
    uploads: Sequence[npt.NDArray[np.floating]],
    truth: Labels | None,
    reference: Labels | None,
) -> dict[str, float]:
    """Return the figures of one round by name.

    ``rows``; ``raw_bytes_per_row`` of the features as float32; ``quantisation_error`` of the
    decoded true codes; ``influence_share/PARTY``; with true labels the names of
    :func:`clustering_quality`, with a reference ``agreement_ari`` and ``agreement_nmi``, with both
    ``central_`` and those names for the reference.
    """
    whole = np.concatenate(features, axis=1)
    decoded = [own.quantiser.decode(own.codes) for own in quantised]
    values = {
        "rows": float(len(whole)),
        "raw_bytes_per_row": 4.0 * whole.shape[1],
        "quantisation_error": normalised_error(whole, np.concatenate(decoded, axis=1)),
    }
    for name, share in zip(names, influence_shares(uploads), strict=True):
        values[f"influence_share/{name}"] = share
    if truth is not None:
        values |= clustering_quality(found, truth)
    if reference is not None:
        values |= {f"agreement_{n}": v for n, v in agreement(found, reference).items()}
        if truth is not None:
            central = clustering_quality(reference, truth)
            values |= {f"central_{n}": v for n, v in central.items()}
    return values


def data_warnings(data: VerticalData, config: PQMDSConfig) -> list[str]:
    """Return what is allowed and worth knowing of the data."""
    found = []
    if len(data.parties) == 1:
        found.append("one party only: nothing is federated, and its upload is the whole table")
    for party in data.parties:
        levels: dict[str, int] = {}
        for i, column in enumerate(party.columns):
            if column.kind != "categorical":
                continue
            single = column.name == column.source
            count = len(np.unique(party.features[:, i])) if single else 1
            levels[column.source] = levels.get(column.source, 0) + count
        found += [
            f"categorical column '{name}' of party '{party.party}' has {count} levels, more than "
            f"{config.codewords} codewords: levels share codes"
            for name, count in levels.items()
            if count > config.codewords
        ]
    return found
