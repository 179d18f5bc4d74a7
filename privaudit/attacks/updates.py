"""What a view tells of users' updates: values, coordinates, and where training started.

One reading for every protocol whose messages hold updates or models, so that an attack on updates
is written once. Where the view does not tell what an update started from, the update is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.protocols.baselines import kinds as fedavg
from privaudit.protocols.disue import kinds as disue
from privaudit.protocols.pa_cfl import kinds as pa_cfl
from privaudit.transcript import Array, Message, PartyId, View

__all__ = [
    "UPDATE_KINDS",
    "ObservedUpdate",
    "learning_rate",
    "observed_updates",
    "public_number",
    "records_told",
    "stale_starts",
]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: Kinds of messages that :func:`observed_updates` and :func:`records_told` read.
UPDATE_KINDS: Final = (
    fedavg.UPDATE,
    fedavg.GLOBAL_MODEL,
    disue.PARAMETERS,
    disue.CLUSTER_MODEL,
    disue.CLASS_COUNTS,
    pa_cfl.IMPORTANT_VALUES,
    pa_cfl.PLAIN_REMAINDER,
    pa_cfl.GLOBAL_PERMUTATION,
    pa_cfl.CLUSTER_AGGREGATE,
    pa_cfl.GLOBAL_AGGREGATE,
    pa_cfl.DATASET_SIZE,
)


#: A user that tells more records than these does not tell a number of records.
MOST_RECORDS: Final = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class ObservedUpdate:
    """One user's update in one round, as far as a view tells it.

    Attributes
    ----------
    user : str
    round : int
    start : ndarray of float32, shape (d,)
        Parameters before local training.
    values : ndarray of float64, shape (m,)
        In the units of gradients: before minus after, over the learning rate.
    indices : ndarray of int64, shape (m,), or None
        The coordinate of each value; None if all are there, in order.
    """

    user: PartyId
    round: int
    start: npt.NDArray[np.float32]
    values: Float64
    indices: Int64 | None

    def known(self, vectors: Array) -> Array:
        """Return the entries of vectors (..., d) that the view tells of the update."""
        return vectors if self.indices is None else vectors[..., self.indices]

    def whole(self) -> Float64:
        """Return the update (d,) with zeros where the view does not tell it."""
        if self.indices is None:
            return self.values
        result = np.zeros(len(self.start))
        result[self.indices] = self.values
        return result


def public_number(view: View, name: str) -> float | None:
    """Return a number of the public configuration, or None if it is not there."""
    configuration = view.public.get("configuration")
    value = configuration.get(name) if isinstance(configuration, Mapping) else None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else None  # type: ignore[arg-type]


def learning_rate(view: View, round: int) -> float | None:
    """Return the users' learning rate in a round, or None if it is not public."""
    rate = public_number(view, "learning_rate")
    decay = public_number(view, "learning_rate_decay")
    return rate if rate is None or decay is None else rate * decay ** (round - 1)


def records_told(view: View) -> dict[PartyId, int]:
    """Return the number of records of each user that told it.

    Raises
    ------
    InvalidDataError
        If one is no count of at most :data:`MOST_RECORDS` records.
    """
    told: dict[PartyId, int] = {}
    for kind, name in (
        (fedavg.UPDATE, "records"),
        (pa_cfl.DATASET_SIZE, "records"),
        (disue.CLASS_COUNTS, "counts"),
    ):
        for message in view.select(kind):
            if name in message.specs:
                total = float(np.sum(message.arrays[name], dtype=np.float64))
                if not (1 <= total <= MOST_RECORDS and total.is_integer()):
                    raise InvalidDataError(
                        f"'{message.sender}' tells {total:g} records in round {message.round}; "
                        f"expected is a count from 1 to {MOST_RECORDS:,}"
                    )
                told.setdefault(message.sender, int(total))
    return told


def observed_updates(
    view: View, knowledge: Knowledge, *, attack: str, round: int | None = None
) -> tuple[ObservedUpdate, ...]:
    """Return the updates of users outside the coalition whose start the view tells.

    Whole ones are FedAvg's, those of DisUE without secure aggregation, and PA-CFL's without
    protection; of PA-CFL otherwise the important values, once a member knows their coordinates
    (a user does). PA-CFL's users start from what the AS sent them, which is replayed.

    Raises
    ------
    UnmetRequirementsError
        If there is none.
    InvalidDataError
        If one is not finite or does not fit where it started.
    """
    found = [
        *_whole(view, fedavg.UPDATE),
        *_trained(view),
        *_partial(view, knowledge),
    ]
    chosen = [u for u in found if round is None or u.round == round]
    if not chosen:
        raise UnmetRequirementsError(
            f"attack '{attack}' needs updates whose coordinates and starting parameters are known; "
            f"the view of {view.coalition} holds none of a user outside it in round "
            f"{'any' if round is None else round}; rounds with some: "
            f"{sorted({u.round for u in found})}"
        )
    for update in chosen:
        if not np.isfinite(update.values).all():
            raise InvalidDataError(
                f"the update of {update.user}, round {update.round}, is not finite"
            )
    return tuple(sorted(chosen, key=lambda u: u.round))


def _outside(view: View, kind: str) -> list[Message]:
    return [
        m
        for m in view.select(kind)
        if m.sender not in view.coalition.members and m.round is not None
    ]


def _sent_models(view: View) -> dict[tuple[int, PartyId], Message]:
    models: dict[tuple[int, PartyId], Message] = {}
    for kind in (fedavg.GLOBAL_MODEL, disue.CLUSTER_MODEL):
        for message in view.select(kind):
            models[message.round or 0, message.receiver] = message
    return models


def _whole(view: View, kind: str) -> list[ObservedUpdate]:
    models = _sent_models(view)
    found = []
    for message in _outside(view, kind):
        t = message.round or 0
        if (t, message.sender) in models:
            start = _model(models[t, message.sender])
            values = message.arrays["values"].astype(np.float64)
            _check_length(message, values, start)
            found.append(ObservedUpdate(message.sender, t, start, values, None))
    return found


def _trained(view: View) -> list[ObservedUpdate]:
    models = _sent_models(view)
    found = []
    for message in _outside(view, disue.PARAMETERS):
        t = message.round or 0
        rate = learning_rate(view, t)
        if (t, message.sender) in models and rate is not None:
            start = _model(models[t, message.sender])
            after = message.arrays["parameters"].astype(np.float64)
            _check_length(message, after, start)
            found.append(ObservedUpdate(message.sender, t, start, (start - after) / rate, None))
    return found


def _partial(view: View, knowledge: Knowledge) -> list[ObservedUpdate]:
    if not view.select(pa_cfl.IMPORTANT_VALUES):
        return []
    orders = _by_round(view, pa_cfl.GLOBAL_PERMUTATION)
    plain = {(m.round, m.sender): m for m in view.select(pa_cfl.PLAIN_REMAINDER)}
    starts = _replayed(view, knowledge, {t: m.arrays["indices"] for t, m in orders.items()})
    found = []
    for message in _outside(view, pa_cfl.IMPORTANT_VALUES):
        t = message.round or 0
        start = starts.get((t, message.sender))
        if start is None or t not in orders:
            continue
        indices = orders[t].arrays["indices"].astype(np.int64)
        values = message.arrays["values"].astype(np.float64)
        _check_length(message, values, indices)
        if (t, message.sender) in plain:
            rest = np.setdiff1d(np.arange(len(start)), indices)
            more = plain[t, message.sender].arrays["values"].astype(np.float64)
            _check_length(plain[t, message.sender], more, rest)
            indices, values = np.concatenate([indices, rest]), np.concatenate([values, more])
        found.append(ObservedUpdate(message.sender, t, start, values, indices))
    return found


def _by_round(view: View, kind: str) -> dict[int, Message]:
    first: dict[int, Message] = {}
    for message in view.select(kind):
        first.setdefault(message.round or 0, message)
    return first


def _replayed(
    view: View, knowledge: Knowledge, orders: Mapping[int, Array]
) -> dict[tuple[int, PartyId], npt.NDArray[np.float32]]:
    """Return each user's parameters at the start of each round, as far as the view tells them."""
    initial = view.public_arrays.get("initial-parameters", knowledge.parameters)
    rate = public_number(view, "learning_rate")
    server_rate = public_number(view, "server_learning_rate")
    if initial is None:
        return {}
    sent: dict[tuple[int, PartyId], Message] = {}
    for kind in (pa_cfl.CLUSTER_AGGREGATE, pa_cfl.GLOBAL_AGGREGATE):
        for message in view.select(kind):
            sent[message.round or 0, message.receiver] = message
    starts: dict[tuple[int, PartyId], npt.NDArray[np.float32]] = {}
    last = max(orders, default=1)
    for user in (p.id for p in view.parties if p.role == "user"):
        parameters = initial.astype(np.float32)
        for t in range(1, last + 1):
            starts[t, user] = parameters
            step, indices = sent.get((t, user)), orders.get(t)
            if step is None or indices is None or rate is None or server_rate is None:
                break
            rest = np.setdiff1d(np.arange(len(parameters)), indices)
            parameters = parameters.copy()
            parameters[np.concatenate([indices, rest])] -= (
                np.float32(rate * server_rate) * step.arrays["values"]
            )
    return starts


def stale_starts(
    view: View, knowledge: Knowledge
) -> dict[int, dict[PartyId | None, npt.NDArray[np.float32]]]:
    """Return what is known of where PA-CFL's users start in each round, by round and user.

    The key None stands for any other user: a colluding user's parameters, or the last that are
    known, which are the initial ones for a management server alone.
    """
    orders = {t: m.arrays["indices"] for t, m in _by_round(view, pa_cfl.GLOBAL_PERMUTATION).items()}
    starts = _replayed(view, knowledge, orders)
    result: dict[int, dict[PartyId | None, npt.NDArray[np.float32]]] = defaultdict(dict)
    colluders = sorted(view.coalition.members)
    for t in sorted(orders):
        for (s, user), parameters in starts.items():
            if s == t:
                result[t][user] = parameters
        of_colluders = [starts[t, c] for c in colluders if (t, c) in starts]
        initial = view.public_arrays.get("initial-parameters", knowledge.parameters)
        if of_colluders:
            result[t][None] = np.mean(of_colluders, axis=0, dtype=np.float32)
        elif initial is not None:
            result[t][None] = initial.astype(np.float32)
    return dict(result)


def _model(message: Message) -> npt.NDArray[np.float32]:
    return message.arrays["parameters"].astype(np.float32)


def _check_length(message: Message, values: Array, wanted: Array) -> None:
    if values.shape != wanted.shape:
        raise InvalidDataError(
            f"message {message.seq} ('{message.kind}' from '{message.sender}') holds "
            f"{values.shape} values where {wanted.shape} are expected"
        )
