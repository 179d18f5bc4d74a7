"""Making the knowledge that a threat model grants, from the data of a simulated run.

What the adversary may not know, which row each person is, is returned apart from the knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.attacks.vertical import (
    Codebook,
    KnownAttributes,
    KnownRecords,
    PartialRecords,
    VerticalKnowledge,
)
from privaudit.datasets.vertical import VerticalData
from privaudit.errors import ConfigurationError
from privaudit.transcript import Capability, PartyId, Transcript

__all__ = ["Grant", "codebooks_of", "feature_layout", "grant", "whole_table"]

Float64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Grant:
    """Declared knowledge, and what the scorer must know of the persons in it.

    Attributes
    ----------
    knowledge : Knowledge
    persons : mapping of str to int or None
        For each target of ``partial`` and each candidate, the id of its row in the run, or None;
        :func:`privaudit.scoring.records.person_truth` makes a truth of it.
    """

    knowledge: Knowledge
    persons: Mapping[str, int | None]


def whole_table(data: VerticalData) -> Float64:
    """Return all rows with their columns in the order of the whole table, (n, columns) float64."""
    width = 1 + max(int(party.positions.max()) for party in data.parties)
    result = np.zeros((len(data), width))
    for party in data.parties:
        result[:, party.positions] = party.features
    return result


def feature_layout(transcript: Transcript) -> Mapping[PartyId, tuple[Ints, ...]]:
    """Return the columns of the whole table in each subspace, from the parties' secrets."""
    result = {}
    for party, secrets in transcript.secrets.items():
        if "layout" in secrets and "columns" in secrets:
            layout, columns = np.asarray(secrets["layout"]), np.asarray(secrets["columns"])
            result[party] = tuple(
                columns[layout == m].astype(np.int64) for m in range(int(layout.max()) + 1)
            )
    return result


def codebooks_of(
    transcript: Transcript, *, round: int = 1
) -> Mapping[PartyId, tuple[Codebook, ...]]:
    """Return the parties' codebooks and what each codeword becomes, from their secrets.

    Codewords that no row has are left out: they may be padding.
    """
    result = {}
    for party, secrets in transcript.secrets.items():
        if f"embedding/round-{round}" not in secrets:
            continue
        centres = np.asarray(secrets[f"centres/round-{round}"], dtype=np.float64)
        levels = np.asarray(secrets[f"embedding/round-{round}"], dtype=np.float64)
        codes, layout = secrets[f"codes/round-{round}"], np.asarray(secrets["layout"])
        books = []
        for m in range(len(levels)):
            used = np.unique(np.asarray(codes)[:, m]).astype(np.int64)
            books.append(Codebook(centres[np.ix_(used, layout == m)], levels[m, used]))
        result[party] = tuple(books)
    return result


def grant(
    capabilities: frozenset[Capability],
    data: VerticalData,
    transcript: Transcript,
    *,
    rng: np.random.Generator,
    known: int = 100,
    persons: int = 400,
    columns: Ints | None = None,
    noise: float = 0.0,
    attribute: Ints | None = None,
) -> Grant:
    """Make what capabilities grant.

    Persons are rows of the run, drawn at random, none of them known. As many others, for the
    candidate list, are taken from the end of the auxiliary rows, and are not among those that are
    granted as auxiliary data.

    Parameters
    ----------
    capabilities : frozenset of Capability
    data : VerticalData
    transcript : Transcript
    rng : Generator
    known : int
        Rows whose records, or whose attribute, are known.
    persons : int
        Persons that the adversary looks for, and members among the candidates.
    columns : ndarray of int64, optional
        Which columns of the whole table the copies hold; all by default.
    noise : float
        Standard deviation of Gaussian noise on the copies, in the units of the table; the adversary
        is told it.
    attribute : ndarray of int64, shape (n,), optional
        The sensitive attribute; the labels by default.

    Raises
    ------
    ConfigurationError
        If the run has too few rows, or there are no labels or auxiliary rows and some are needed.
    """
    table, ids = whole_table(data), data.ids
    looked_for = {Capability.PARTIAL_RECORDS, Capability.CANDIDATE_LIST} & capabilities
    needed = known + (persons if looked_for else 0)
    if not known > 1 or not persons > 0 or needed >= len(ids):
        raise ConfigurationError(
            f"{known} known rows and {persons} persons need a run of more rows, got {len(ids)}"
        )
    order = rng.permutation(len(ids))
    rows, searched = order[:known], order[known : known + persons]
    rest = data.auxiliary.features.astype(np.float64)
    truth: dict[str, int | None] = {}
    held = VerticalKnowledge()
    if Capability.KNOWN_RECORDS in capabilities:
        held = _with(held, known=KnownRecords(ids[rows], table[rows]))
    if Capability.KNOWN_ATTRIBUTES in capabilities:
        classes = data.labels if attribute is None else attribute
        if classes is None:
            raise ConfigurationError(f"'{data.dataset}' has no labels; name a sensitive attribute")
        held = _with(held, attributes=KnownAttributes(ids[rows], classes[rows].astype(np.int64)))
    if Capability.FEATURE_LAYOUT in capabilities:
        held = _with(held, layout=feature_layout(transcript))
    if Capability.CODEBOOKS in capabilities:
        held = _with(held, codebooks=codebooks_of(transcript))
    if Capability.PARTIAL_RECORDS in capabilities:
        seen = np.arange(table.shape[1]) if columns is None else columns
        copies = table[np.ix_(searched, seen)]
        names = tuple(f"person-{i}" for i in range(len(searched)))
        copies = copies + noise * rng.normal(size=copies.shape)
        held = _with(held, partial=PartialRecords(names, seen, copies, noise))
        truth |= {name: int(ids[row]) for name, row in zip(names, searched, strict=True)}
    if Capability.CANDIDATE_LIST in capabilities and len(rest):
        strangers = min(persons, len(rest) // 2)
        rest, others = rest[: len(rest) - strangers], rest[len(rest) - strangers :]
        names = tuple(f"candidate-{i}" for i in range(len(searched) + strangers))
        mixed = rng.permutation(len(names))
        candidates = np.concatenate([table[searched], others])[mixed]
        held = _with(held, candidates=candidates, candidate_ids=names)
        owners = [*(int(row) for row in ids[searched]), *([None] * strangers)]
        truth |= {name: owners[i] for name, i in zip(names, mixed, strict=True)}
    if Capability.AUXILIARY_DATA in capabilities:
        if not len(rest):
            raise ConfigurationError(f"'{data.dataset}' has no auxiliary rows to grant")
        held = _with(held, auxiliary=rest)
    return Grant(Knowledge(vertical=held), MappingProxyType(truth))


def _with(held: VerticalKnowledge, **more: object) -> VerticalKnowledge:

    return replace(held, **more)  # type: ignore[arg-type]
