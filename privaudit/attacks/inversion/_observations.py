"""What the attacks read from a view: vectors of each user, checked, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion._options import MatchingOptions, needs_auxiliary
from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.models import ModelSpec, parameter_count
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.protocols.pa_cfl.kinds import (
    GLOBAL_PERMUTATION,
    IMPORTANT_VALUES,
    PERMUTATION_SEQUENCE,
)
from privaudit.transcript import Array, Capability, Message, View

__all__ = [
    "LocalSteps",
    "PartialUpdates",
    "auxiliary_records",
    "check_dimension",
    "declared_model",
    "granted_auxiliary",
    "important_values",
    "largest_of",
    "local_training",
    "permutation_sequences",
    "target_ids",
    "updates",
    "usable_auxiliary",
]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

#: Array of an update, where users send the buffers of their networks too: mean and variance that
#: each batch normalisation took, layer by layer.
_STATISTICS = "batch_statistics"


@dataclass(frozen=True, slots=True, eq=False)
class PartialUpdates:
    """Some entries of each user's update.

    Attributes
    ----------
    users : tuple of str
    values : ndarray of float32, shape (users, k)
    indices : ndarray of int64, shape (users, k), or None
        The coordinate of each value; None when the view does not tell it.
    statistics : ndarray of float32, shape (users, s), or None
        What users told of their batch normalisation; None when they told nothing.
    """

    users: tuple[str, ...]
    values: Float32
    indices: Int64 | None
    statistics: Float32 | None = None

    def take(self, positions: Int64) -> PartialUpdates:
        """Return the updates of some of the users."""
        return PartialUpdates(
            tuple(self.users[p] for p in positions),
            self.values[positions],
            None if self.indices is None else self.indices[positions],
            None if self.statistics is None else self.statistics[positions],
        )


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """How users train in one round, as published."""

    learning_rate: float
    batch_size: int
    epochs: int
    single: bool

    def steps(self, records: int) -> int:
        """Return the number of local steps of a user with so many records."""
        return 1 if self.single else self.epochs * -(-records // self.batch_size)


def local_training(view: View, *, attack: str) -> LocalSteps:
    """Return the public training parameters.

    Raises
    ------
    UnmetRequirementsError
        If they were not published.
    InvalidDataError
        If they are not positive numbers.
    """
    published = view.public.get("configuration")
    keys = ("learning_rate", "batch_size", "local_epochs")
    if not isinstance(published, Mapping) or any(key not in published for key in keys):
        raise UnmetRequirementsError(
            f"attack '{attack}' needs the public 'configuration' with {', '.join(keys)}, and the "
            "run does not publish it"
        )
    rate, batch, epochs = (published[key] for key in keys)
    positive = all(
        isinstance(x, int | float) and not isinstance(x, bool) and np.isfinite(x) and x > 0
        for x in (rate, batch, epochs)
    )
    if not positive or not isinstance(batch, int) or not isinstance(epochs, int):
        raise InvalidDataError(
            "the public 'configuration' must have a positive learning_rate and positive integers "
            f"batch_size and local_epochs, got {rate}, {batch} and {epochs}"
        )
    assert isinstance(rate, int | float)
    return LocalSteps(float(rate), batch, epochs, published.get("update") == "gradient")


def declared_model(knowledge: Knowledge, *, attack: str) -> tuple[ModelSpec, Float32]:
    """Return architecture and parameters, or say which of them was not declared.

    Raises
    ------
    UnmetRequirementsError
        If either is absent.
    InvalidDataError
        If the parameters are not finite or not as many as the architecture has.
    """
    if knowledge.model is None or knowledge.parameters is None:
        absent = "model" if knowledge.model is None else "parameters"
        raise UnmetRequirementsError(
            f"attack '{attack}' needs knowledge.{absent}, which was not declared; give the "
            f"{'architecture' if absent == 'model' else 'parameters of the attacked round'}"
        )
    spec, parameters = knowledge.model, knowledge.parameters
    count = parameter_count(spec)
    finite = bool(np.isfinite(parameters).all())
    if parameters.shape != (count,) or not finite:
        raise InvalidDataError(
            f"knowledge.parameters must be the {count} parameters of '{spec.name}', got shape "
            f"{parameters.shape}{'' if finite else ' with values that are not finite'}"
        )
    return spec, parameters


def auxiliary_records(view: View, knowledge: Knowledge, *, attack: str, why: str) -> LabelledImages:
    """Return the auxiliary records, which must be both granted and declared.

    Raises
    ------
    UnmetRequirementsError
        If the threat model does not grant auxiliary data or none were declared.
    """
    view.require({Capability.AUXILIARY_DATA}, attack=attack)
    if knowledge.auxiliary is None or len(knowledge.auxiliary) == 0:
        raise UnmetRequirementsError(
            f"attack '{attack}' needs knowledge.auxiliary for {why}, and none was declared"
        )
    return _fitting(knowledge.auxiliary, knowledge.model)


def granted_auxiliary(
    view: View, knowledge: Knowledge, *, options: MatchingOptions, attack: str
) -> LabelledImages | None:
    """Return auxiliary records if they are granted and declared; raise if the options need them."""
    if (why := needs_auxiliary(options)) is not None:
        return auxiliary_records(view, knowledge, attack=attack, why=why)
    return usable_auxiliary(view, knowledge)


def usable_auxiliary(view: View, knowledge: Knowledge) -> LabelledImages | None:
    """Return auxiliary records if they are both granted and declared."""
    granted = Capability.AUXILIARY_DATA in view.capabilities
    declared = knowledge.auxiliary is not None and len(knowledge.auxiliary) > 0
    if not granted or not declared or knowledge.auxiliary is None:
        return None
    return _fitting(knowledge.auxiliary, knowledge.model)


def _fitting(records: LabelledImages, spec: ModelSpec | None) -> LabelledImages:
    """Return the records if the declared model takes them."""
    if spec is None:
        return records
    found, top = records.images.shape[1:], int(records.labels.max())
    if found != spec.input_shape or top >= spec.classes or int(records.labels.min()) < 0:
        raise InvalidDataError(
            f"auxiliary records of shape {found} with labels up to {top} do not fit the declared "
            f"model, which takes {spec.input_shape} and has {spec.classes} classes"
        )
    return records


def check_dimension(found: int, expected: int, *, what: str) -> None:
    """Raise InvalidDataError unless a vector is as long as the model has parameters."""
    if found != expected:
        raise InvalidDataError(
            f"{what} has {found} entries and the declared model has {expected} parameters; "
            "declare the model that the users trained"
        )


def _first_round(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Messages of the earliest round: the declared parameters are those of one round."""
    rounds = [m.round for m in messages if m.round is not None]
    return tuple(m for m in messages if m.round == min(rounds)) if rounds else messages


def _by_user(view: View, kind: str, *, attack: str) -> dict[str, Message]:
    """One message of a kind from each sender outside the coalition, in order of sending.

    Raises
    ------
    UnmetRequirementsError
        If the view holds none.
    InvalidDataError
        If a user sent two in one round.
    """
    messages = _first_round(view.select(kind))
    found: dict[str, Message] = {}
    for message in messages:
        if message.sender in view.coalition.members:
            continue
        if message.sender in found:
            raise InvalidDataError(
                f"'{message.sender}' sent '{kind}' twice in round {message.round} (messages "
                f"{found[message.sender].seq} and {message.seq}); one a round is expected"
            )
        found[message.sender] = message
    if not found:
        raise UnmetRequirementsError(
            f"attack '{attack}' reads '{kind}', and {view.coalition} saw no such message from "
            "a user outside it"
        )
    return found


def _vector(message: Message, name: str) -> Array:
    if name not in message.arrays:
        raise InvalidDataError(
            f"message {message.seq} ('{message.kind}' from '{message.sender}') has no array "
            f"'{name}'; it holds {sorted(message.arrays)}"
        )
    array = message.arrays[name]
    if array.ndim != 1 or array.size == 0:
        raise InvalidDataError(
            f"'{name}' of message {message.seq} ('{message.kind}' from '{message.sender}') must "
            f"be a vector that is not empty, got shape {array.shape}"
        )
    return array


def _stack(messages: dict[str, Message], name: str) -> Array:
    vectors = [_vector(message, name) for message in messages.values()]
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        kind = next(iter(messages.values())).kind
        raise InvalidDataError(f"'{name}' of '{kind}' differs in length among users: {lengths}")
    return np.stack(vectors)


def _values(messages: dict[str, Message], name: str = "values") -> Float32:
    for message in messages.values():
        finite = np.isfinite(_vector(message, name))
        if not finite.all():
            raise InvalidDataError(
                f"message {message.seq} ('{message.kind}' from '{message.sender}'): "
                f"{int((~finite).sum())} of {finite.size} {name} are not finite"
            )
    return _stack(messages, name).astype(np.float32)


def _coordinates(message: Message, dimension: int) -> Int64:
    indices = _vector(message, "indices")
    valid = (
        np.issubdtype(indices.dtype, np.integer)
        and bool((indices >= 0).all())
        and bool((indices < dimension).all())
        and len(np.unique(indices)) == len(indices)
    )
    if not valid:
        raise InvalidDataError(
            f"'indices' of message {message.seq} ('{message.kind}' from '{message.sender}') must "
            f"be distinct integers in [0, {dimension}), the coordinates of the declared model"
        )
    return indices.astype(np.int64)


def updates(view: View, *, dimension: int, attack: str) -> PartialUpdates:
    """Return whole updates (N, d) that users sent in the clear; ``indices`` is None.

    ``statistics`` are the messages' arrays of that name, ``batch_statistics``, if all have one.
    """
    messages = _by_user(view, UPDATE, attack=attack)
    values = _values(messages)
    check_dimension(values.shape[1], dimension, what=f"'{UPDATE}'")
    statistics = None
    if all(_STATISTICS in message.specs for message in messages.values()):
        statistics = _values(messages, _STATISTICS)
    return PartialUpdates(tuple(messages), values, None, statistics)


def largest_of(whole: PartialUpdates, *, fraction: float) -> PartialUpdates:
    """Return the ``floor(fraction * d)`` (at least one) largest entries of whole updates."""
    count = max(1, int(fraction * whole.values.shape[1]))
    # A stable sort breaks ties by coordinate, as users of PA-CFL do.
    order = np.argsort(-np.abs(whole.values), axis=1, kind="stable")[:, :count]
    largest = np.take_along_axis(whole.values, order, 1)
    return PartialUpdates(whole.users, largest, order, whole.statistics)


def important_values(view: View, *, dimension: int, attack: str, placed: bool) -> PartialUpdates:
    """Return the important values of PA-CFL and, if asked, the coordinates that pi^g gives them.

    Raises
    ------
    UnmetRequirementsError
        If no member of the coalition saw the values, or pi^g when ``placed``.
    InvalidDataError
        If values or coordinates are malformed.
    """
    messages = _by_user(view, IMPORTANT_VALUES, attack=attack)
    values = _values(messages)
    if not placed:
        if values.shape[1] > dimension:
            check_dimension(values.shape[1], dimension, what=f"'{IMPORTANT_VALUES}'")
        return PartialUpdates(tuple(messages), values, None)
    sequences = _first_round(view.select(GLOBAL_PERMUTATION))
    if not sequences:
        raise UnmetRequirementsError(
            f"attack '{attack}' needs '{GLOBAL_PERMUTATION}' to place the values, and "
            f"{view.coalition} did not see it; add one user to the coalition"
        )
    order = _coordinates(sequences[0], dimension)
    for message in sequences[1:]:
        if not np.array_equal(_vector(message, "indices"), order):
            raise InvalidDataError(
                f"'{GLOBAL_PERMUTATION}' differs between messages {sequences[0].seq} and "
                f"{message.seq} of one round"
            )
    if len(order) != values.shape[1]:
        raise InvalidDataError(
            f"'{GLOBAL_PERMUTATION}' places {len(order)} values and users sent {values.shape[1]}"
        )
    return PartialUpdates(tuple(messages), values, np.tile(order, (len(values), 1)))


def permutation_sequences(
    view: View, *, dimension: int, attack: str
) -> tuple[tuple[str, ...], Int64]:
    """Return users and their permutation sequences (N, k), largest magnitude first."""
    messages = _by_user(view, PERMUTATION_SEQUENCE, attack=attack)
    for message in messages.values():
        _coordinates(message, dimension)
    return tuple(messages), _stack(messages, "indices").astype(np.int64)


def target_ids(view: View, kind: str, *, attack: str) -> tuple[str, ...]:
    """Return the users that an attack on messages of one kind has as targets."""
    return tuple(_by_user(view, kind, attack=attack))
