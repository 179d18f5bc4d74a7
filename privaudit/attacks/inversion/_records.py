"""How many records an update was computed from, and attacks on users of different numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.protocols.pa_cfl.kinds import DATASET_SIZE
from privaudit.transcript import Capability, Message, View

__all__ = ["RecordOptions", "group_by_records", "record_counts"]

Int64 = npt.NDArray[np.int64]

#: Diagnostics that are sums over groups; "largest ..." are maxima, all others means.
_SUMMED = frozenset(
    {"evaluations", "zero updates", "diverged searches", "restarts after divergence"}
)


class RecordOptions(Protocol):
    """Options of an attack that say how many records an update has."""

    @property
    def records(self) -> int | None:
        """Records an update as declared; None to read them from the view."""
        ...

    @property
    def most_records(self) -> int:
        """Records an update at most."""
        ...


def record_counts(
    view: View, users: tuple[str, ...], *, options: RecordOptions, attack: str
) -> Int64:
    """Return the number of records behind each user's update, as the coalition knows it.

    From the first of these that there is: the attack's option ``records``, which is declared
    knowledge; the capability ``single-record-updates``; the ``records`` that the user told the
    server with its update, or, in PA-CFL, the aggregation server.

    Returns
    -------
    ndarray of int64, shape (users,)

    Raises
    ------
    UnmetRequirementsError
        If the number is not known, or above ``most_records``.
    InvalidDataError
        If a message names no positive integer.
    """
    if options.records is not None:
        counts = np.full(len(users), options.records, np.int64)
    elif Capability.SINGLE_RECORD_UPDATES in view.capabilities:
        counts = np.ones(len(users), np.int64)
    else:
        told = _told(view)
        unknown = [user for user in users if user not in told]
        if unknown:
            raise UnmetRequirementsError(
                f"attack '{attack}' needs the number of records behind the update of "
                f"'{unknown[0]}', which {view.coalition} was not told; declare it with the option "
                "'records', or grant single-record-updates where it holds"
            )
        counts = np.array([told[user] for user in users], np.int64)
    if len(counts) and counts.max() > options.most_records:
        raise UnmetRequirementsError(
            f"attack '{attack}' inverts updates of at most {options.most_records} records, and "
            f"that of '{users[int(counts.argmax())]}' is of {counts.max()}; larger batches fail "
            "at this budget, raise 'most_records' to try"
        )
    return counts


def _told(view: View) -> dict[str, int]:
    """Return the records that each sender named, in the earliest round of each kind."""
    told: dict[str, int] = {}
    for kind in (DATASET_SIZE, UPDATE):
        messages = [m for m in view.select(kind) if "records" in m.specs]
        rounds = [m.round for m in messages if m.round is not None]
        for message in messages:
            if not rounds or message.round == min(rounds):
                told[message.sender] = _count(message)
    return told


def _count(message: Message) -> int:
    array = np.asarray(message.arrays["records"])
    if array.size != 1 or array.dtype.kind not in "iu" or array.item() < 1:
        raise InvalidDataError(
            f"'records' of message {message.seq} ('{message.kind}' from '{message.sender}') must "
            f"be one positive integer, got {array.dtype} of shape {array.shape}"
        )
    return int(array.item())


def group_by_records(
    users: tuple[str, ...], counts: Int64, attack: Callable[[Int64, int], Guesses]
) -> Guesses:
    """Attack the users of each number of records together, and return guesses in users' order.

    Parameters
    ----------
    attack : callable
        Takes positions among ``users`` and the number of records of each; returns guesses for
        them in that order.
    """
    found: dict[str, tuple[npt.NDArray[np.float32], float]] = {}
    numbers: dict[str, list[tuple[float, int]]] = {}
    for records in sorted(set(counts.tolist())):
        positions = np.flatnonzero(counts == records)
        guesses = attack(positions, records)
        for user, value, score in zip(
            guesses.target_ids, guesses.values, guesses.scores, strict=True
        ):
            found[user] = (value, float(score))
        for name, number in guesses.diagnostics.items():
            numbers.setdefault(name, []).append((number, len(positions)))
    diagnostics = {name: _joined(name, parts) for name, parts in numbers.items()}
    diagnostics["largest number of records"] = float(counts.max())
    return Guesses(
        target_ids=users,
        values=tuple(found[user][0] for user in users),
        scores=np.array([found[user][1] for user in users]),
        diagnostics=diagnostics,
    )


def _joined(name: str, parts: list[tuple[float, int]]) -> float:
    if name in _SUMMED:
        return float(sum(number for number, _ in parts))
    if name.startswith("largest"):
        return max(number for number, _ in parts)
    return float(
        np.average([number for number, _ in parts], weights=[weight for _, weight in parts])
    )
