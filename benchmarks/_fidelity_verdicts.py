"""Claims of the PA-CFL paper, each with the rule by which it is judged.

The rules were written down before the numbers were seen. A rule reads the results of one data set
and is the same for every data set; ``n`` is the number of seeds behind a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from _fidelity_measures import (
    EPSILONS,
    FEDAVG,
    MAX_NORM,
    NO_FINE,
    NO_PRE,
    NON_PRIVATE,
    OVERLAPS,
)

Outcome = Literal["reproduced", "partly", "not reproduced"]
#: Results of one data set: by seed, the measured parts by name.
Results = Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim, what the paper says, what was measured, and the rule that decides."""

    claim: str
    section: str
    rule: str
    paper: str
    ours: str
    seeds: int
    verdict: Outcome


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim and its rule; ``judge`` returns (ours, seeds, verdict), None without data."""

    claim: str
    section: str
    paper: str
    rule: str
    judge: Callable[[Results], tuple[str, int, Outcome] | None]


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return "mean (lowest to highest)"; of one value the value alone."""
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{np.mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def runs_of(results: Results) -> dict[int, dict[str, Any]]:
    """Return all training runs of each seed by name."""
    found: dict[int, dict[str, Any]] = {}
    for seed, parts in results.items():
        runs: dict[str, Any] = {}
        for part in ("clustering", "training", "ablation"):
            runs |= parts.get(part, {}).get("runs", {})
        found[seed] = runs
    return found


def last_accuracy(run: Mapping[str, Any]) -> float:
    """Return the accuracy, per cent, after the last complete round; 0 if there is none."""
    return 100.0 * run["accuracy"][-1] if run["accuracy"] else 0.0


def scores(
    results: Results, similarity: str, *, update: str = "fedavg", late: bool, field: str = "skip"
) -> list[float]:
    """Return one entry of the clustering table for each seed that has it."""
    found = []
    for parts in results.values():
        rows = [
            row
            for row in parts.get("clustering", {}).get("rows", ())
            if row["similarity"] == similarity
            and row["update"] == update
            and (row["round"] > 1) == late
        ]
        found += [row[field] for row in rows]
    return found


def mean_curves(results: Results) -> tuple[dict[str, np.ndarray], int]:
    """Return the curve of each metric of Figure 11(a), mean over the seeds, and their number."""
    curves = [p["overlap"]["curves"] for p in results.values() if "overlap" in p]
    if not curves:
        return {}, 0
    names = curves[0]
    return {name: np.mean([c[name] for c in curves], axis=0) for name in names}, len(curves)


def decline(curve: np.ndarray) -> float:
    """Return how much a curve falls from 0 % to 100 % overlap."""
    return float(curve[0] - curve[-1])


def roughness(curve: np.ndarray) -> float:
    """Return the mean magnitude of the second differences: 0 for a straight line."""
    return float(np.abs(np.diff(curve, 2)).mean())


def rise(curve: np.ndarray) -> float:
    """Return the sum of all steps upwards: 0 for a curve that only falls."""
    return float(np.maximum(np.diff(curve), 0).sum())


def _finds_groups(similarity: str, *, late: bool) -> Callable[[Results], Any]:
    def judge(results: Results) -> tuple[str, int, Outcome] | None:
        found = scores(results, similarity, late=late)
        if not found:
            return None
        mean = float(np.mean(found))
        verdict: Outcome = (
            "reproduced" if mean >= 0.9 else "partly" if mean >= 0.5 else "not reproduced"
        )
        return f"ARI {spread(found)}", len(found), verdict

    return judge


def _steepest_smoothest(name: str) -> Callable[[Results], Any]:
    def judge(results: Results) -> tuple[str, int, Outcome] | None:
        curves, seeds = mean_curves(results)
        if not seeds:
            return None
        steepest = max(curves, key=lambda m: decline(curves[m]))
        smoothest = min(curves, key=lambda m: roughness(curves[m]))
        falls = rise(curves[name]) == 0
        met = (falls, steepest == name, smoothest == name)
        verdict: Outcome = "reproduced" if all(met) else "partly" if any(met) else "not reproduced"
        ours = (
            f"{'falls throughout' if falls else f'rises by {rise(curves[name]):.2f}'}, decline "
            f"{decline(curves[name]):.2f}, roughness {roughness(curves[name]):.3f}; steepest: "
            f"{steepest} ({decline(curves[steepest]):.2f}), smoothest: {smoothest} "
            f"({roughness(curves[smoothest]):.3f})"
        )
        return ours, seeds, verdict

    return judge


def _norms_stay_high(results: Results) -> tuple[str, int, Outcome] | None:
    curves, seeds = mean_curves(results)
    if not seeds:
        return None
    between = [i for i, percent in enumerate(OVERLAPS) if 0 < percent <= 80]
    low = np.max([curves[m] for m in ("cosine", "Pearson", "fastdtw")], axis=0)
    high = np.min([curves[m] for m in ("L1", "L2", MAX_NORM)], axis=0)
    above = sum(bool(high[i] > low[i]) for i in between)
    verdict: Outcome = (
        "reproduced" if above == len(between) else "partly" if above else "not reproduced"
    )
    return f"at {above} of {len(between)} overlaps", seeds, verdict


def _reaches(name: str, percent: float) -> Callable[[Results], Any]:
    def judge(results: Results) -> tuple[str, int, Outcome] | None:
        runs = [r[name] for r in runs_of(results).values() if name in r]
        if not runs:
            return None
        found = [last_accuracy(run) for run in runs]
        ended = sum(run["status"] == "diverged" for run in runs)
        missing = percent - float(np.mean(found))
        verdict: Outcome = "not reproduced"
        if not ended:
            verdict = "reproduced" if missing <= 1 else "partly" if missing <= 5 else verdict
        note = f", diverged in {ended} of {len(runs)}" if ended else ""
        return f"{spread(found, '.1f')} %{note}", len(runs), verdict

    return judge


def _gap(name: str, reference: str, *, at_most: float) -> Callable[[Results], Any]:
    def judge(results: Results) -> tuple[str, int, Outcome] | None:
        pairs = [
            (r[name], r[reference])
            for r in runs_of(results).values()
            if name in r and reference in r
        ]
        if not pairs:
            return None
        lost = [last_accuracy(b) - last_accuracy(a) for a, b in pairs]
        diverged = any(a["status"] == "diverged" for a, _ in pairs)
        mean = float(np.mean(lost))
        verdict: Outcome = "not reproduced"
        if not diverged:
            verdict = "reproduced" if mean <= at_most else "partly" if mean <= 5 else verdict
        return f"{spread(lost, '.1f')} points lost", len(pairs), verdict

    return judge


def _better(name: str, reference: str) -> Callable[[Results], Any]:
    def judge(results: Results) -> tuple[str, int, Outcome] | None:
        pairs = [
            (r[name], r[reference])
            for r in runs_of(results).values()
            if name in r and reference in r
        ]
        if not pairs:
            return None
        gained = [last_accuracy(a) - last_accuracy(b) for a, b in pairs]
        verdict: Outcome = "not reproduced"
        if all(a["status"] == "completed" for a, _ in pairs) and np.mean(gained) > 0:
            verdict = "reproduced" if min(gained) > 0 else "partly"
        return f"{spread(gained, '+.1f')} points", len(pairs), verdict

    return judge


def _refines(results: Results) -> tuple[str, int, Outcome] | None:
    runs = [r[NON_PRIVATE] for r in runs_of(results).values() if NON_PRIVATE in r]
    if not runs:
        return None
    before = [float(np.mean(run["pre_ari"])) for run in runs]
    after = [float(np.mean(run["final_ari"])) for run in runs]
    verdict: Outcome = "not reproduced"
    if np.mean(after) > np.mean(before):
        verdict = "reproduced" if np.mean(after) >= 0.9 else "partly"
    return f"ARI {spread(before)} before, {spread(after)} after", len(runs), verdict


def _ordered_by_budget(results: Results) -> tuple[str, int, Outcome] | None:
    names = [f"PA-CFL, eps0 = {epsilon:g}" for epsilon in EPSILONS]
    seeds = [r for r in runs_of(results).values() if all(name in r for name in names)]
    if not seeds:
        return None
    means = [float(np.mean([last_accuracy(r[name]) for r in seeds])) for name in names]
    verdict: Outcome = "not reproduced"
    if means == sorted(means):
        verdict = "reproduced"
    elif means[0] < means[-1]:
        verdict = "partly"
    return " / ".join(f"{m:.1f}" for m in means) + " %", len(seeds), verdict


_ARI_RULE = "mean ARI >= 0.9: reproduced; >= 0.5: partly (PA-CFL's partition, skip, R = 3)"
_FIGURE_RULE = (
    "of the mean curve: never rises, largest decline from 0 to 100 %, smallest mean |second "
    "difference| among all metrics: all three: reproduced; one or two: partly"
)
_LEVEL_RULE = "no run diverges and the mean is at most 1 point below: reproduced; 5 points: partly"
_BETTER_RULE = (
    "no run diverges and the difference is positive in the mean: partly; in each seed: reproduced"
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Pre-clustering finds the groups, FastDTW (experiments), round 1",
        "5.4, 7.1",
        "groups found",
        _ARI_RULE,
        _finds_groups("fastdtw", late=False),
    ),
    Claim(
        "Pre-clustering finds the groups, exact DTW (definition), round 1",
        "5.4",
        "groups found",
        _ARI_RULE,
        _finds_groups("dtw", late=False),
    ),
    Claim(
        "Pre-clustering finds the groups after training, FastDTW",
        "7.4.3",
        "stable",
        _ARI_RULE,
        _finds_groups("fastdtw", late=True),
    ),
    Claim(
        "Fine clustering refines the pre-clusters (PA-CFL*, mean over rounds)",
        "5.6, 7.5",
        "improves",
        "mean ARI after exceeds that before: partly; and is >= 0.9: reproduced",
        _refines,
    ),
    Claim(
        "Figure 11(a): FastDTW declines most steeply and smoothly",
        "7.4.2",
        "steepest, smoothest",
        _FIGURE_RULE,
        _steepest_smoothest("fastdtw"),
    ),
    Claim(
        "Figure 11(a): exact DTW declines most steeply and smoothly",
        "7.4.2",
        "steepest, smoothest",
        _FIGURE_RULE,
        _steepest_smoothest("dtw"),
    ),
    Claim(
        "Figure 11(a): L1, L2, MaxNorm stay above cosine, Pearson and FastDTW",
        "7.4.2",
        "up to 80 %",
        "smallest of the first above largest of the second at 20, 40, 60 and 80 %: reproduced; "
        "at some: partly",
        _norms_stay_high,
    ),
    Claim(
        "Accuracy of PA-CFL at eps0 = 1",
        "Table 2",
        "99.70 %",
        _LEVEL_RULE,
        _reaches("PA-CFL, eps0 = 1", 99.70),
    ),
    Claim("Accuracy of PA-CFL*", "Table 2", "99.74 %", _LEVEL_RULE, _reaches(NON_PRIVATE, 99.74)),
    Claim(
        "Protection at eps0 = 1 costs little",
        "7.5",
        "0.04 points lost",
        "no run diverges and the mean loss is at most 1 point: reproduced; 5 points: partly",
        _gap("PA-CFL, eps0 = 1", NON_PRIVATE, at_most=1.0),
    ),
    Claim(
        "Utility falls with eps0 (paper: Fashion-MNIST)",
        "7.4.1",
        "loss rises",
        "mean accuracy rises from each eps0 to the next: reproduced; from first to last: partly",
        _ordered_by_budget,
    ),
    Claim(
        "PA-CFL* is more accurate than FedAvg",
        "7.2.2",
        "higher",
        _BETTER_RULE,
        _better(NON_PRIVATE, FEDAVG),
    ),
    Claim(
        "PA-CFL at eps0 = 1 is more accurate than FedAvg",
        "7.2.2",
        "higher",
        _BETTER_RULE,
        _better("PA-CFL, eps0 = 1", FEDAVG),
    ),
    Claim(
        "Ablation: fine clustering raises the accuracy of PA-CFL*",
        "7.5",
        "+0.31 points",
        _BETTER_RULE,
        _better(NON_PRIVATE, NO_FINE),
    ),
    Claim(
        "Ablation: pre-clustering raises the accuracy of PA-CFL*",
        "7.5",
        "+0.22 points",
        _BETTER_RULE,
        _better(NON_PRIVATE, NO_PRE),
    ),
)


def verdicts(results: Results) -> list[Verdict]:
    """Judge every claim for which there are results."""
    found = []
    for claim in CLAIMS:
        judged = claim.judge(results)
        if judged is not None:
            ours, seeds, verdict = judged
            found.append(
                Verdict(claim.claim, claim.section, claim.rule, claim.paper, ours, seeds, verdict)
            )
    return found
