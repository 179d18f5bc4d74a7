"""How much of users' updates a coalition holds, and how much of what it holds is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.attacks.collusion import RECOVERED, Status
from privaudit.errors import ConfigurationError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Array, Truth

__all__ = ["ExposureMeasure", "ExposureSummary", "energy_known", "exposure", "summarise"]


@dataclass(frozen=True, slots=True)
class ExposureMeasure:
    """What is known of one user's update in one round, checked against the truth.

    Fractions are of the update's d coordinates unless said otherwise; ``nan`` where there is
    nothing to take a fraction of, or the truth does not hold what is needed.

    Attributes
    ----------
    target : str
    dimension : int
    exact_fraction : float
        Coordinates whose value is claimed to be known exactly.
    exact_verified : float
        Of those, the fraction whose value is the truth's up to a float32 rounding.
    derived_fraction : float
        Coordinates whose value was computed from an aggregate.
    derived_error : float
        Relative error of those together, Euclidean norm over Euclidean norm.
    noised_fraction : float
        Coordinates whose noised value was seen, placed or not, attributed or not.
    attributed_fraction : float
        Coordinates whose noised value is attributed to the user.
    attributed_verified : float
        Of those, the fraction that is the report the user sent (truth ``noised``).
    anonymity_minimum : int
        Least number of users among whom a noised value cannot be told apart; 0 if none was seen.
    anonymity_median : float
        Its median over the coordinates whose noised value was seen.
    unplaced_values : int
        Exact values seen without their coordinates.
    """

    target: str
    dimension: int
    exact_fraction: float
    exact_verified: float
    derived_fraction: float
    derived_error: float
    noised_fraction: float
    attributed_fraction: float
    attributed_verified: float
    anonymity_minimum: int
    anonymity_median: float
    unplaced_values: int


@dataclass(frozen=True, slots=True)
class ExposureSummary:
    """One row of a report's exposure table; fields as there, averages over the targets.

    ``exact_verified`` and ``attributed_verified`` are ``nan`` where nothing was claimed.
    """

    coalition_label: str
    size: int
    targets: int
    exact_fraction: float
    worst_exact_fraction: float
    exact_verified: float
    noised_fraction: float
    unplaced_values: int
    anonymity_minimum: int
    anonymity_median: float
    attributed_verified: float
    note: str


def exposure(guesses: Guesses, truth: Truth) -> tuple[ExposureMeasure, ...]:
    """Measure each target of :class:`privaudit.attacks.collusion.UpdateRecovery`.

    Parameters
    ----------
    guesses : Guesses
        Values of dtype ``RECOVERED``, shape (d,).
    truth : Truth
        Holds ``update`` (d,) float32 for each target, and ``noised`` (d2,) float32 where the user
        sent a noised report.

    Raises
    ------
    KeyError
        If the truth does not hold a target's update.
    ConfigurationError
        If a guess has another type or length.
    """
    return tuple(
        _measure(target, value, guesses, truth)
        for target, value in zip(guesses.target_ids, guesses.values, strict=True)
    )


def energy_known(guesses: Guesses, truth: Truth) -> Scores:
    """Score the share of an update's energy ``|u|^2`` in coordinates that are known without noise.

    Those that are claimed as exact or as derived from an aggregate count, each only as far as it
    is right: ``sum_j max(0, u_j^2 - (v_j - u_j)^2) / |u|^2`` over them. Errors as
    :func:`exposure`.
    """
    shares = {}
    for target, found in zip(guesses.target_ids, guesses.values, strict=True):
        update = _checked(target, found, truth).astype(np.float64)
        known = np.isin(found["status"], (Status.EXACT, Status.DERIVED))
        own = update[known] ** 2
        error = (found["value"][known].astype(np.float64) - update[known]) ** 2
        total = float((update**2).sum())
        shares[target] = float(np.maximum(own - error, 0).sum()) / total if total else float("nan")
    return Scores("energy known without noise", "mean", shares)


def _checked(target: str, found: Array, truth: Truth) -> Array:
    update = truth.get(target, "update")
    if found.dtype != RECOVERED or found.shape != update.shape:
        raise ConfigurationError(
            f"{target}: exposure needs guesses of {RECOVERED} and shape {update.shape}, got "
            f"{found.dtype} of shape {found.shape}"
        )
    return update


def _measure(target: str, found: Array, guesses: Guesses, truth: Truth) -> ExposureMeasure:
    update = _checked(target, found, truth)
    d = len(update)
    status, value = found["status"], found["value"]
    exact, derived = status == Status.EXACT, status == Status.DERIVED
    attributed = status == Status.ATTRIBUTED
    noised = attributed | (status == Status.ANONYMOUS)
    # Values that were seen but not placed weigh in with the smallest set they were seen among.
    unplaced_noised = int(guesses.diagnostics.get(f"unplaced-noised/{target}", 0.0))
    unplaced_anonymity = int(guesses.diagnostics.get(f"unplaced-anonymity/{target}", 0.0))
    sets = np.concatenate(
        [found["anonymity"][noised], np.full(unplaced_noised, unplaced_anonymity, dtype=np.int32)]
    )
    return ExposureMeasure(
        target=target,
        dimension=d,
        exact_fraction=float(exact.mean()),
        exact_verified=_fraction(np.isclose(value[exact], update[exact], rtol=2e-7, atol=0.0)),
        derived_fraction=float(derived.mean()),
        derived_error=_relative_error(value[derived], update[derived]),
        noised_fraction=(int(noised.sum()) + unplaced_noised) / d,
        attributed_fraction=float(attributed.mean()),
        attributed_verified=_attributed_verified(target, value, attributed, noised, truth),
        anonymity_minimum=int(sets.min()) if sets.size else 0,
        anonymity_median=float(np.median(sets)) if sets.size else 0.0,
        unplaced_values=int(guesses.diagnostics.get(f"unplaced-exact/{target}", 0.0)),
    )


def _fraction(right: npt.NDArray[np.bool_]) -> float:
    return float(right.mean()) if right.size else float("nan")


def _relative_error(value: npt.NDArray[np.float32], true: npt.NDArray[np.float32]) -> float:
    norm = float(np.linalg.norm(true.astype(np.float64)))
    if not value.size or norm == 0:
        return float("nan")
    return float(np.linalg.norm(value.astype(np.float64) - true)) / norm


def _attributed_verified(
    target: str,
    value: npt.NDArray[np.float32],
    attributed: npt.NDArray[np.bool_],
    noised: npt.NDArray[np.bool_],
    truth: Truth,
) -> float:
    sent = truth.targets[target].get("noised")
    # The report is in ascending order of coordinate, as are the noised coordinates found.
    if sent is None or int(noised.sum()) != len(sent) or not attributed.any():
        return float("nan")
    mine = attributed[noised]
    return _fraction(value[attributed] == sent[mine])


def summarise(
    measures: Sequence[ExposureMeasure], *, label: str, size: int, note: str = ""
) -> ExposureSummary:
    """Average measures over the targets; the least anonymity and the most exact are kept.

    The note tells of derived values and of noised values that are attributed, for which a row has
    no field, after ``note``.

    Raises
    ------
    ConfigurationError
        If there is no measure.
    """
    if not measures:
        raise ConfigurationError(f"{label}: no target was measured")
    seen = [m.anonymity_minimum for m in measures if m.anonymity_minimum > 0]
    notes = [note] if note else []
    derived = [m for m in measures if m.derived_fraction > 0]
    if derived:
        errors = [m.derived_error for m in derived]
        notes.append(
            f"the important values of {len(derived)} of {len(measures)} targets follow from an "
            f"aggregate (relative error: median {np.median(errors):.1e}, largest "
            f"{np.max(errors):.1e})"
        )
    attributed = [m for m in measures if m.attributed_fraction > 0]
    if attributed:
        notes.append(
            f"noised values of {len(attributed)} of {len(measures)} targets are attributed to them"
        )
    return ExposureSummary(
        coalition_label=label,
        size=size,
        targets=len(measures),
        exact_fraction=float(np.mean([m.exact_fraction for m in measures])),
        worst_exact_fraction=max(m.exact_fraction for m in measures),
        exact_verified=_mean_of_finite([m.exact_verified for m in measures]),
        noised_fraction=float(np.mean([m.noised_fraction for m in measures])),
        unplaced_values=max(m.unplaced_values for m in measures),
        anonymity_minimum=min(seen, default=0),
        anonymity_median=float(np.median([m.anonymity_median for m in measures])),
        attributed_verified=_mean_of_finite([m.attributed_verified for m in measures]),
        note="; ".join(notes),
    )


def _mean_of_finite(values: Sequence[float]) -> float:
    finite = [v for v in values if np.isfinite(v)]
    return float(np.mean(finite)) if finite else float("nan")
