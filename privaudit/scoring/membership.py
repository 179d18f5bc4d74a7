"""How well membership scores tell members from others: AUC, and hits at few false alarms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from privaudit.attacks.base import Guesses
from privaudit.errors import ConfigurationError
from privaudit.scoring.estimate import Estimate, Scores
from privaudit.transcript import Truth

__all__ = ["auc_scores", "hit_scores", "membership_auc", "true_positives_at"]

Float64 = npt.NDArray[np.float64]

_DRAWS = 1000


def _split(guesses: Guesses, truth: Truth) -> tuple[Float64, Float64]:
    member = np.array([bool(truth.get(person, "member")) for person in guesses.target_ids])
    scores = np.array([float(value) for value in guesses.values])
    if not np.isfinite(scores).all():
        raise ConfigurationError(
            f"{int((~np.isfinite(scores)).sum())} membership scores are not finite"
        )
    if member.all() or not member.any():
        raise ConfigurationError(
            f"membership is scored on members and others, got {int(member.sum())} members of "
            f"{member.size} candidates"
        )
    return scores[member], scores[~member]


def membership_auc(
    guesses: Guesses, truth: Truth, *, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """Estimate the area under the ROC curve; one half is chance.

    A tie counts one half. The interval is a percentile bootstrap that draws members and others
    apart.

    Parameters
    ----------
    guesses : Guesses
        Values () float64, the larger the likelier a member.
    truth : Truth
        ``member`` of each candidate, as :func:`privaudit.scoring.records.person_truth` makes it.
    confidence : float
    seed : int

    Raises
    ------
    KeyError
        If the truth does not know a candidate.
    ConfigurationError
        If there is no member or no other, or a score is not finite.
    """
    members, others = _split(guesses, truth)
    levels, place = np.unique(np.concatenate([members, others]), return_inverse=True)
    inside, outside = place[: len(members)], place[len(members) :]

    def area(i: npt.NDArray[np.intp], o: npt.NDArray[np.intp]) -> float:
        hits = np.bincount(i, minlength=len(levels))
        alarms = np.bincount(o, minlength=len(levels))
        below = np.cumsum(alarms) - alarms
        return float((hits * (below + 0.5 * alarms)).sum() / (len(i) * len(o)))

    rng = np.random.default_rng(seed)
    draws = [
        area(rng.choice(inside, len(inside)), rng.choice(outside, len(outside)))
        for _ in range(_DRAWS)
    ]
    tail = (1 - confidence) / 2
    low, high = (float(q) for q in np.quantile(draws, (tail, 1 - tail)))
    value = area(inside, outside)
    return Estimate(
        metric="membership AUC",
        value=value,
        # All draws agree where the scores separate; the interval holds the value in any case.
        low=min(low, value),
        high=max(high, value),
        confidence=confidence,
        n=len(members) + len(others),
        failed=0,
        method=f"percentile bootstrap of members and others, {_DRAWS} draws",
    )


def true_positives_at(
    guesses: Guesses, truth: Truth, *, false_positives: float = 0.01, confidence: float = 0.95
) -> Estimate:
    """Estimate the share of members that score above all but a few of the others.

    The threshold is the least score that at most ``false_positives`` of the others exceed, which
    is chance. The interval is Clopper-Pearson's of the members' share at that threshold; it does
    not count that the threshold varies with the others.

    Raises
    ------
    KeyError, ConfigurationError
        As :func:`membership_auc`; also if there are too few others for the rate.
    """
    members, others = _split(guesses, truth)
    threshold = _threshold(others, false_positives)
    hits = int((members > threshold).sum())
    interval = stats.binomtest(hits, len(members)).proportion_ci(confidence, method="exact")
    return Estimate(
        metric=f"true positives at {false_positives:.0%} false positives",
        value=hits / len(members),
        low=float(interval.low),
        high=float(interval.high),
        confidence=confidence,
        n=len(members),
        failed=0,
        method=f"Clopper-Pearson at the threshold of {len(others)} others",
    )


def _threshold(others: Float64, false_positives: float) -> float:
    allowed = int(np.floor(false_positives * len(others) + 1e-9))
    if allowed < 1:
        raise ConfigurationError(
            f"a false-positive rate of {false_positives:g} needs {round(1 / false_positives)} "
            f"others or more, got {len(others)}"
        )
    return float(np.sort(others)[::-1][allowed])


def auc_scores(guesses: Guesses, truth: Truth) -> Scores:
    """Score candidates so that their mean is the area under the ROC curve.

    A member's part is the share of the others that score below it, another's the share of the
    members above it; deviations from the area are weighted by the inverse share of the group
    among the candidates. These are the pseudo-values of the infinitesimal jackknife: the variance
    of their mean is that of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988). A single one
    may lie outside [0, 1].

    Raises
    ------
    KeyError, ConfigurationError
        As :func:`membership_auc`.
    """
    members, others = _split(guesses, truth)
    above = _shares_below(others, members)
    below = 1 - _shares_below(members, others)
    area, total = float(above.mean()), len(members) + len(others)
    parts = {
        True: iter(area + (above - area) * total / len(members)),
        False: iter(area + (below - area) * total / len(others)),
    }
    return Scores(
        metric="membership AUC",
        statistic="mean",
        per_target={
            person: float(next(parts[bool(truth.get(person, "member"))]))
            for person in guesses.target_ids
        },
    )


def _shares_below(reference: Float64, scores: Float64) -> Float64:
    """Return for each score the share of the reference below it, ties counting one half."""
    ordered = np.sort(reference)
    places = np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    result: Float64 = places / (2 * len(ordered))
    return result


def hit_scores(guesses: Guesses, truth: Truth, *, false_positives: float = 0.01) -> Scores:
    """Score 1 for each member above all but a few of the others, as :func:`true_positives_at`.

    Every score is ``nan`` where there are too few others for the rate.
    """
    _, others = _split(guesses, truth)
    metric = f"true positives at {false_positives:.0%} false positives"
    asked = [p for p in guesses.target_ids if bool(truth.get(p, "member"))]
    if false_positives * len(others) < 1:
        # How many others there are is known only once the attack says whom it has a score for.
        return Scores(metric, "mean", dict.fromkeys(asked, float("nan")))
    threshold = _threshold(others, false_positives)
    return Scores(
        metric=metric,
        statistic="proportion",
        per_target={
            person: float(float(value) > threshold)
            for person, value in zip(guesses.target_ids, guesses.values, strict=True)
            if bool(truth.get(person, "member"))
        },
    )
