"""From ciphertexts to pictures: the recovered model gives the update, the update the record."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.cryptanalysis._views import (
    CIPHERTEXTS,
    Seen,
    challenges,
    compares_updates,
    starting_model,
)
from privaudit.attacks.cryptanalysis.errors import InapplicableError
from privaudit.attacks.cryptanalysis.ratio import recover_from_pads
from privaudit.attacks.inversion import CosineInversion
from privaudit.attacks.inversion._options import MatchingOptions
from privaudit.errors import UnmetRequirementsError
from privaudit.protocols.baselines.kinds import UPDATE
from privaudit.protocols.disue.kinds import CLUSTER_MODEL, GLOBAL_MODEL
from privaudit.transcript import Capability, Message, View

__all__ = ["RecoveredInversion", "real_scale", "update_direction"]

Float64 = npt.NDArray[np.float64]
#: Least ratio of the update's norm to that of the rounding of the quantised model.
SIGNAL = 2.0


def real_scale(quantised: npt.NDArray[np.int64], before: Float64) -> float:
    """Estimate the real number that one quantisation step stands for.

    The recovered model is ``w = kappa a`` with an unknown kappa, and most of its coordinates have
    hardly moved from the model before training: kappa minimises ``sum |w_G - kappa a|``, so it is
    the median of ``w_G / a`` weighted by ``|a|``. Least squares would be drawn by the few
    coordinates that did move.

    Parameters
    ----------
    quantised : ndarray of int64, shape (d,)
    before : ndarray of float64, shape (d,)

    Raises
    ------
    InapplicableError
        If the model before training is zero wherever the recovered one is not.
    """
    used = quantised != 0
    ratios, weights = before[used] / quantised[used], np.abs(quantised[used]).astype(np.float64)
    order = np.argsort(ratios, kind="stable")
    middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    kappa = float(ratios[order][middle])
    if kappa <= 0:
        raise InapplicableError(
            "the model before training does not point the way of the recovered one, so that the "
            "real scale of the latter is not known"
        )
    return kappa


def update_direction(quantised: npt.NDArray[np.int64], before: Float64) -> tuple[Float64, float]:
    """Return ``w_G - kappa a``, the update up to the learning rate, and its signal-to-noise ratio.

    The noise is that of quantisation, kappa / sqrt(12) a coordinate.

    Raises
    ------
    InapplicableError
        If the vectors differ in length, or the update is not above the noise of quantisation.
    """
    if len(before) != len(quantised):
        raise InapplicableError(
            f"the recovered vector has {len(quantised)} entries and the model before training "
            f"{len(before)}"
        )
    kappa = real_scale(quantised, before)
    update = before - kappa * quantised
    ratio = float(np.linalg.norm(update) / (kappa * np.sqrt(len(before) / 12)))
    if ratio < SIGNAL:
        raise InapplicableError(
            f"the update is only {ratio:.1f} times the rounding of the quantised model: nothing to "
            "invert"
        )
    return update, ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredInversion(MatchingOptions):
    """Reconstruct clients' records from PCSC ciphertexts: pcsc-ratio, then gradient inversion.

    The ciphertexts give the quantised model exactly (pcsc-ratio). The model that training started
    from is the server's own, so that the difference of the two is the update: its scale is the one
    at which most coordinates have not moved. Cosine matching of that update (inversion/cosine,
    which does not depend on its magnitude) gives the record. Where similarities are of updates the
    recovered vector is the update itself. Applies where an update is one gradient of one record,
    and then for the first round; for more the update is recovered all the same, by pcsc-ratio.

    Attributes
    ----------
    iterations, learning_rate, total_variation, restarts, tolerance, init, prior, ... :
        As :class:`privaudit.attacks.inversion.CosineInversion`.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-inversion"
    version: ClassVar[str] = "2"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = CosineInversion.requires | {
        Capability.SINGLE_RECORD_UPDATES
    }
    reads: ClassVar[tuple[str, ...]] = (*CIPHERTEXTS, GLOBAL_MODEL, CLUSTER_MODEL)

    iterations: int = 400
    learning_rate: float = 0.2
    total_variation: float = 1e-3
    restarts: int = 4

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Reconstruct the record of every client whose ciphertexts the coalition saw.

        Returns
        -------
        Guesses
            Targets are clients, as in the attacks of ``inversion/``; values images; diagnostics
            of the inversion and ``least-signal``, the least ratio of an update to the rounding.

        Raises
        ------
        UnmetRequirementsError
            If a capability, the architecture, the ciphertexts or the model before training is
            missing.
        InapplicableError
            If sizes are out of reach, or rounding hides an update.
        RecoveryFailedError, InvalidDataError
            As pcsc-ratio and inversion/cosine.
        """
        view.require(self.requires, attack=self.name)
        seen = self._first_round(view)
        before = starting_model(view, seen[0].initiator, round=seen[0].round)
        if before is None:
            raise UnmetRequirementsError(
                f"attack '{self.name}' needs the model before training, and {view.coalition} holds "
                "none"
            )
        signals, messages = [], []
        for number, one in enumerate(seen):
            recovery = recover_from_pads(one.modulus, one.scale, one.ciphertexts)
            own = starting_model(view, one.initiator, round=one.round)
            assert own is not None
            if not np.array_equal(own, before):
                raise InapplicableError(
                    f"{one.initiator} started from another model than {seen[0].initiator}; the "
                    "inversion knows one model for all"
                )
            if compares_updates(view):
                update, signal = -recovery.values.astype(np.float64), float("inf")
            else:
                update, signal = update_direction(recovery.values, before)
            signals.append(signal)
            messages.append(_as_update(number, one, update))
        inverted = CosineInversion(**{f.name: getattr(self, f.name) for f in fields(self)}).run(
            replace(view, messages=tuple(messages)),
            knowledge=replace(knowledge, parameters=before.astype(np.float32)),
            rng=rng,
        )
        least = min(signals)
        numbers = dict(inverted.diagnostics)
        if np.isfinite(least):
            numbers["least-signal"] = least
        return replace(inverted, diagnostics=MappingProxyType(numbers))

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the mean auxiliary image, or grey, for the same targets."""
        messages = tuple(
            _as_update(number, one, np.zeros(1))
            for number, one in enumerate(self._first_round(view))
        )
        return CosineInversion(records=1).baseline(
            replace(view, messages=messages), knowledge=knowledge, rng=rng
        )

    def _first_round(self, view: View) -> tuple[Seen, ...]:
        seen = challenges(view, attack=self.name)
        rounds = [one.round for one in seen if one.round is not None]
        first = min(rounds) if rounds else None
        return tuple(one for one in seen if one.round == first)


def _as_update(number: int, seen: Seen, update: Float64) -> Message:
    """Return the message in which a server without encryption would have got the update."""
    size = float(np.linalg.norm(update)) or 1.0
    values = (update / size).astype(np.float32)
    return Message(
        number, seen.round, UPDATE, seen.initiator, "server", MappingProxyType({"values": values})
    )
