"""Linking a user's updates across rounds, by their directions."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import PSEUDONYM_ROLE
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.models import classifier_rows
from privaudit.protocols.baselines import kinds as fedavg
from privaudit.protocols.disue import kinds as disue
from privaudit.protocols.pa_cfl import kinds as pa_cfl
from privaudit.transcript import Array, Capability, Message, PartyId, View

__all__ = ["LINKABLE_KINDS", "GradientLinking"]

Float64 = npt.NDArray[np.float64]

#: Kinds whose messages are linked, and the name of their array; the first that a view holds.
LINKABLE_KINDS: Final = MappingProxyType(
    {
        fedavg.UPDATE: "values",
        disue.PARAMETERS: "parameters",
        pa_cfl.FULL_UPDATE: "values",
        pa_cfl.NOISED_REMAINDER: "values",
        pa_cfl.IMPORTANT_VALUES: "values",
    }
)
#: Those whose coordinates depend on the sequence of the round.
_PLACED = (pa_cfl.NOISED_REMAINDER, pa_cfl.IMPORTANT_VALUES)


@dataclass(frozen=True, slots=True)
class GradientLinking:
    """Tell which user sent each pseudonymous update, by the cosine with named ones.

    An update follows from a user's records, which stay: its direction changes slowly. What all
    users have in common in a round (the model, for those that send models) is taken out first:
    each coordinate's mean over the round's messages. Named updates of several rounds are averaged,
    so that noise averages out, and with them compared by their cosine; every user is matched once.
    The view comes from a transcript treated by :func:`privaudit.attacks.control.pseudonymise`.

    Of PA-CFL it reads full updates where users send them, the noised remainders (management
    server), or the important values once a member of the coalition knows their coordinates.
    Coordinates that a round does not hold count as unknown, zero after centring.

    Attributes
    ----------
    part : {"update", "classifier", "classifier-bias"}
        All coordinates, those of the last layer, or its biases alone, which follow from the
        shares of the user's labels. The latter two need the model's architecture.
    history : bool
        Use all named rounds, not only the last before the pseudonymous one (or else the first).
    """

    part: Literal["update", "classifier", "classifier-bias"] = "update"
    history: bool = True

    name: ClassVar[str] = "reidentification/gradient-linking"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "linkability"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = (*LINKABLE_KINDS, pa_cfl.GLOBAL_PERMUTATION)

    def __post_init__(self) -> None:
        if self.part not in ("update", "classifier", "classifier-bias"):
            raise ConfigurationError(
                f"part is 'update', 'classifier' or 'classifier-bias', got {self.part!r}"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the user behind each pseudonym.

        Returns
        -------
        Guesses
            Targets are the pseudonyms; values are positions among the users, () int64; scores are
            how much greater the guessed user's cosine is than the next.

        Raises
        ------
        UnmetRequirementsError
            If the view holds no pseudonymous update, or no round with known senders; if
            coordinates or the model's architecture are not known where they are needed.
        """
        from scipy.optimize import linear_sum_assignment

        kind, probe_round, rounds = self._rounds(view)
        place = self._places(view, kind, knowledge)
        names, probes = self._centred(view, kind, probe_round, place)
        total: dict[PartyId, Float64] = {}
        for t in rounds:
            users, vectors = self._centred(view, kind, t, place)
            for user, vector in zip(users, vectors, strict=True):
                total[user] = total.get(user, 0.0) + vector / max(_norm(vector), 1e-30)
        gallery = sorted(total)
        table = _cosines(probes, np.stack([total[u] for u in gallery]))
        chosen = table.argmax(axis=1)
        rows, columns = linear_sum_assignment(table, maximize=True)
        # With fewer named senders than pseudonyms some stay unmatched: nearest for those.
        chosen[rows] = columns
        own = table[np.arange(len(table)), chosen]
        others = table.copy()
        others[np.arange(len(table)), chosen] = -np.inf
        margin = own - others.max(axis=1) if len(gallery) > 1 else own
        return Guesses(
            target_ids=names,
            values=_positions(view, [gallery[c] for c in chosen]),
            scores=margin,
            diagnostics=MappingProxyType(
                {
                    "mean-cosine-of-matches": float(own.mean()),
                    "mean-cosine": float(table.mean()),
                    "named-rounds": float(len(rounds)),
                }
            ),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Match pseudonyms and users at random: right for one in N on average."""
        kind, probe_round, rounds = self._rounds(view)
        names = tuple(m.sender for m in _sent(view, kind, probe_round))
        gallery = sorted({m.sender for t in rounds for m in _sent(view, kind, t)})
        times = -(-len(names) // len(gallery))
        order = np.concatenate([rng.permutation(len(gallery)) for _ in range(times)])
        return Guesses(
            target_ids=names,
            values=_positions(view, [gallery[c] for c in order[: len(names)]]),
            scores=np.zeros(len(names)),
        )

    def _rounds(self, view: View) -> tuple[str, int, list[int]]:
        hidden = {p.id for p in view.parties if p.role == PSEUDONYM_ROLE}
        for kind in LINKABLE_KINDS:
            sent = [m for m in view.select(kind) if m.round is not None]
            probes = [m for m in sent if m.sender in hidden]
            if not probes:
                continue
            probe_round = probes[0].round or 0
            named = sorted({m.round for m in sent if m.round is not None} - {probe_round})
            if len({m.round for m in probes}) != 1 or not named:
                break
            if not self.history:
                before = [t for t in named if t < probe_round]
                named = [before[-1] if before else named[0]]
            return kind, probe_round, named
        if hidden and not any(m.sender in hidden for m in view.messages):
            raise UnmetRequirementsError(
                f"attack '{self.name}' reads users' updates, and {view.coalition} saw none of a "
                "pseudonym"
            )
        raise UnmetRequirementsError(
            f"linking needs one round of pseudonymous messages and another of named ones, of one "
            f"kind among {', '.join(LINKABLE_KINDS)}: treat the transcript by "
            "privaudit.attacks.control.pseudonymise"
        )

    def _places(self, view: View, kind: str, knowledge: Knowledge) -> slice:
        if self.part == "update":
            return slice(None)
        view.require({Capability.MODEL_ARCHITECTURE}, attack=self.name)
        if knowledge.model is None:
            raise UnmetRequirementsError(
                f"attack '{self.name}' finds the last layer by knowledge.model, which was not "
                "declared"
            )
        rows = classifier_rows(knowledge.model)
        first = rows.weight_offset if self.part == "classifier" else rows.bias_offset
        return slice(first, rows.bias_offset + knowledge.model.classes)

    def _centred(
        self, view: View, kind: str, round: int, place: slice
    ) -> tuple[tuple[PartyId, ...], Float64]:
        """Return senders and their vectors (senders, m) of one round, less the round's mean."""
        messages = _sent(view, kind, round)
        arrays = [m.arrays[LINKABLE_KINDS[kind]] for m in messages]
        for message, array in zip(messages, arrays, strict=True):
            if array.shape != arrays[0].shape or not array.size:
                raise InvalidDataError(
                    f"the '{kind}' of '{message.sender}' in round {round} has shape {array.shape}, "
                    f"that of '{messages[0].sender}' {arrays[0].shape}; cosines need one length, "
                    "greater than 0"
                )
        vectors = np.stack(arrays).astype(np.float64)
        if not np.isfinite(vectors).all():
            raise InvalidDataError(f"'{kind}' messages of round {round} are not all finite")
        vectors -= vectors.mean(axis=0)
        if kind in _PLACED:
            vectors = self._spread(view, kind, round, vectors)
        return tuple(m.sender for m in messages), vectors[:, place]

    def _spread(self, view: View, kind: str, round: int, vectors: Float64) -> Float64:
        orders = view.select(pa_cfl.GLOBAL_PERMUTATION, round=round)
        if not orders:
            raise UnmetRequirementsError(
                f"attack '{self.name}' needs the coordinates of '{kind}', which "
                f"'{pa_cfl.GLOBAL_PERMUTATION}' of round {round} tells; {view.coalition} did not "
                "see it: add one user to the coalition"
            )
        indices = orders[0].arrays["indices"]
        if kind == pa_cfl.NOISED_REMAINDER:
            dimension = len(indices) + vectors.shape[1]
            where = np.setdiff1d(np.arange(dimension), indices)
        else:
            dimension = len(view.public_arrays["initial-parameters"])
            where = indices
        whole = np.zeros((len(vectors), dimension))
        whole[:, where] = vectors
        return whole


def _sent(view: View, kind: str, round: int) -> tuple[Message, ...]:
    # Those of the coalition's own users are known too: whoever they are, others are not.
    return view.select(kind, round=round)


def _norm(vector: Float64) -> float:
    return float(np.linalg.norm(vector))


def _cosines(first: Float64, second: Float64) -> Float64:
    a = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-30)
    b = second / np.maximum(np.linalg.norm(second, axis=1, keepdims=True), 1e-30)
    result: Float64 = a @ b.T
    return result


def _positions(view: View, users: list[PartyId]) -> tuple[Array, ...]:
    place = {p.id: i for i, p in enumerate(q for q in view.parties if q.role == "user")}
    return tuple(np.array(place[u], dtype=np.int64) for u in users)
