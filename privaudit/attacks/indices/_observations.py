"""What a view shows of the parties' uploads, and what the adversary is declared to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks._messages import array_of
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.indices._codes import Columns
from privaudit.attacks.vertical import VerticalKnowledge
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.protocols.pq_mds import kinds
from privaudit.quantisation import decoded_upload
from privaudit.transcript import Array, Capability, Message, PartyId, View

__all__ = [
    "READS",
    "ObservedIndices",
    "granted",
    "guesses_of_rows",
    "held",
    "layout_of",
    "observe",
    "own_columns",
    "row_target",
]

Table = npt.NDArray[np.float64]
T = TypeVar("T")

#: Kinds of uploads that attacks on indices read: scaled indices, or bare codes.
READS: tuple[str, ...] = (kinds.INDICES, kinds.CODES)
#: Array of row ids in a leaked copy, see :func:`privaudit.attacks.control.leaked`.
_ROWS = "rows"
#: Largest magnitude in an upload that is read: its squares are far from overflow.
_LARGEST = 1e30


@dataclass(frozen=True, slots=True, eq=False)
class ObservedIndices:
    """Uploads of one round, side by side.

    Attributes
    ----------
    ids : ndarray of int64, shape (n,)
        Row ids.
    indices : ndarray of float64, shape (n, columns)
    subspaces : tuple of ndarray of int64
        Columns of each subspace.
    owners : tuple of PartyId
        The party of each subspace.
    """

    ids: npt.NDArray[np.int64]
    indices: Table
    subspaces: tuple[Columns, ...]
    owners: tuple[PartyId, ...]

    def of_others(self, members: Iterable[PartyId]) -> ObservedIndices:
        """Return what parties outside the coalition uploaded.

        Raises
        ------
        UnmetRequirementsError
            If nobody outside did.
        """
        inside = set(members)
        kept = [m for m, owner in enumerate(self.owners) if owner not in inside]
        if not kept:
            raise UnmetRequirementsError(
                f"all uploads in the view are those of its own coalition: {sorted(inside)}"
            )
        columns = [self.subspaces[m] for m in kept]
        ends = np.cumsum([len(c) for c in columns])
        return ObservedIndices(
            ids=self.ids,
            indices=self.indices[:, np.concatenate(columns)],
            subspaces=tuple(np.arange(e - len(c), e) for e, c in zip(ends, columns, strict=True)),
            owners=tuple(self.owners[m] for m in kept),
        )

    def positions(self, ids: npt.NDArray[np.int64], *, what: str) -> npt.NDArray[np.int64]:
        """Return where rows are in the upload.

        Raises
        ------
        InvalidDataError
            If an id is none of the upload's.
        """
        order = np.argsort(self.ids, kind="stable")
        place = np.searchsorted(self.ids, ids, sorter=order).clip(max=len(order) - 1)
        found = order[place]
        missing = ids[self.ids[found] != ids]
        if missing.size:
            raise InvalidDataError(
                f"{what}: {missing.size} of {ids.size} row ids are not in the view, for example "
                f"{int(missing[0])}"
            )
        return np.asarray(found, dtype=np.int64)


def observe(view: View, *, round: int | None = None) -> ObservedIndices:
    """Read the uploads of one round, by default the first that the view holds.

    Raises
    ------
    UnmetRequirementsError
        If the view holds no upload, or not what makes it readable.
    InvalidDataError
        If a party sent two, the uploads' rows differ in number, row ids are not distinct, or an
        upload does not hold numbers of the right shape and size (names the message and the party).
    """
    # A leaked copy names its sender, who did not send it and does not know of it.
    uploads = [
        m
        for m in view.messages
        if m.kind in READS and (_ROWS not in m.specs or m.receiver in view.coalition.members)
    ]
    rounds = sorted({m.round for m in uploads if m.round is not None})
    chosen = round if round is not None else next(iter(rounds), None)
    uploads = [m for m in uploads if m.round == chosen]
    senders = [m.sender for m in uploads]
    if not uploads or len(set(senders)) != len(senders):
        kind = InvalidDataError if uploads else UnmetRequirementsError
        raise kind(
            f"attacks on indices need one upload a party ({' or '.join(READS)}) in round {chosen}; "
            f"the view of {view.coalition} holds {len(uploads)} of {len(set(senders))} parties "
            f"there, rounds with some: {rounds}"
        )
    parts, subspaces, owners = [], [], []
    end = 0
    for message in _ordered(view, uploads):
        table = _dense(message)
        count = _subspaces(view, message, table.shape[1])
        width = table.shape[1] // count
        subspaces += [np.arange(s, s + width) for s in range(end, end + table.shape[1], width)]
        owners += [message.sender] * count
        end += table.shape[1]
        parts.append(table)
    rows = {len(part) for part in parts}
    ids = np.asarray(uploads[0].arrays.get(_ROWS, view.public_arrays.get(kinds.ROWS)))
    if len(rows) != 1 or ids.shape != (len(parts[0]),):
        raise InvalidDataError(
            f"uploads of {sorted(rows)} rows and row ids of shape {ids.shape} are not aligned"
        )
    if ids.dtype.kind not in "iu" or len(np.unique(ids)) != len(ids):
        raise InvalidDataError(f"row ids must be distinct whole numbers; got {ids.dtype}")
    return ObservedIndices(
        ids=ids.astype(np.int64),
        indices=np.concatenate(parts, axis=1, dtype=np.float64),
        subspaces=tuple(subspaces),
        owners=tuple(owners),
    )


def _ordered(view: View, uploads: Sequence[Message]) -> list[Message]:
    place = {party.id: i for i, party in enumerate(view.parties)}
    return sorted(uploads, key=lambda message: place[message.sender])


def _dense(message: Message) -> Array:
    """Return the rows of an upload, checked: a recording may be anybody's."""
    where = f"message {message.seq} ('{message.kind}' from '{message.sender}')"
    for name, dimensions in (("indices", 2), ("codes", 2), ("table", 3)):
        if name in message.arrays:
            _check(np.asarray(message.arrays[name]), name, dimensions, where)
    if message.kind == kinds.CODES:
        return np.asarray(array_of(message, "codes"))
    try:
        return decoded_upload(message.arrays)
    except InvalidDataError as error:
        raise InvalidDataError(f"{where}: {error}") from None


def _check(array: Array, name: str, dimensions: int, where: str) -> None:
    types, what, least = ("iu", "whole numbers", 0.0)
    if name != "codes":
        types, what, least = ("iuf", "numbers", -_LARGEST)
    if array.ndim != dimensions or not array.size or array.dtype.kind not in types:
        raise InvalidDataError(
            f"{where}: '{name}' must hold {what} in {dimensions} dimensions; got {array.dtype} of "
            f"shape {array.shape}"
        )
    # False where a number is none.
    if not (array.min() >= least and array.max() <= _LARGEST):
        raise InvalidDataError(
            f"{where}: '{name}' must hold {what} from {least:g} to {_LARGEST:g}; got "
            f"{array.min()} to {array.max()}"
        )


def _subspaces(view: View, message: Message, columns: int) -> int:
    """Return how many subspaces an upload has; dense ones do not show it themselves."""
    if "codes" in message.arrays:
        return int(message.arrays["codes"].shape[1])
    parties, counts = view.public.get("parties"), view.public.get("subspaces")
    if isinstance(parties, Sequence) and isinstance(counts, Sequence):
        named = zip(map(str, parties), counts, strict=False)
        declared = dict(named).get(message.sender)
        if isinstance(declared, int) and declared > 0 and columns % declared == 0:
            return declared
    raise UnmetRequirementsError(
        f"the number of subspaces of {message.sender}, whose upload has {columns} columns, must be "
        f"public ('parties' and 'subspaces'); got {parties!r} and {counts!r}"
    )


def granted(
    view: View, knowledge: Knowledge, needed: Iterable[Capability], *, attack: str
) -> VerticalKnowledge:
    """Return the declared knowledge, checked against what the attack needs.

    Raises
    ------
    UnmetRequirementsError
        If a capability is missing, or is granted and the knowledge does not hold it.
    """
    view.require(needed, attack=attack)
    held = knowledge.vertical or VerticalKnowledge()
    for capability in sorted(needed):
        if capability in _HELD and getattr(held, _HELD[capability]) is None:
            raise UnmetRequirementsError(
                f"attack '{attack}' is granted {capability}, but the declared knowledge does not "
                f"hold it (vertical.{_HELD[capability]})"
            )
    return held


_HELD = {
    Capability.KNOWN_RECORDS: "known",
    Capability.KNOWN_ATTRIBUTES: "attributes",
    Capability.AUXILIARY_DATA: "auxiliary",
    Capability.FEATURE_LAYOUT: "layout",
    Capability.CANDIDATE_LIST: "candidates",
    Capability.PARTIAL_RECORDS: "partial",
    Capability.CODEBOOKS: "codebooks",
}


def held(value: T | None) -> T:
    """Return knowledge that :func:`granted` has checked to be there."""
    assert value is not None
    return value


def layout_of(observed: ObservedIndices, knowledge: VerticalKnowledge) -> tuple[Columns, ...]:
    """Return the known columns of each observed subspace.

    Raises
    ------
    InvalidDataError
        If the layout does not name every party's every subspace.
    """
    layout = held(knowledge.layout)
    blocks: dict[PartyId, list[Columns]] = {}
    result = []
    for owner in observed.owners:
        left = blocks.setdefault(owner, list(layout.get(owner, ())))
        if not left:
            raise InvalidDataError(
                f"the known layout names {len(layout.get(owner, ()))} subspaces of {owner}, "
                "fewer than it uploaded"
            )
        result.append(np.asarray(left.pop(0), dtype=np.int64))
    return tuple(result)


def own_columns(view: View) -> tuple[npt.NDArray[np.int64], Table]:
    """Return the columns that the coalition's data parties hold themselves, and their values.

    Returns
    -------
    columns : ndarray of int64, shape (own,)
        Empty if no data party is a member.
    values : ndarray of float64, shape (n, own)
        In the order of the run's rows.
    """
    columns, values = [], []
    for member in sorted(view.coalition.members):
        secrets = view.secrets.get(member, {})
        if "features" in secrets and "columns" in secrets:
            columns.append(np.asarray(secrets["columns"], dtype=np.int64))
            values.append(np.asarray(secrets["features"], dtype=np.float64))
    if not columns:
        return np.zeros(0, dtype=np.int64), np.zeros((0, 0))
    return np.concatenate(columns), np.concatenate(values, axis=1)


def row_target(row: int) -> str:
    """Return the name of a row as a target."""
    return f"row-{row}"


def guesses_of_rows(
    ids: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    scores: Table,
    diagnostics: dict[str, float] | None = None,
) -> Guesses:
    """Make guesses, one value a row; values are views of one array."""
    targets = tuple(row_target(int(row)) for row in ids)
    return Guesses(targets, tuple(values), scores, diagnostics or {})
