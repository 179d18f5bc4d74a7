"""Tables of the fidelity benchmark, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from _fidelity_measures import COSINE, OVERLAPS, RUN_ORDER, SIMILARITIES, Setting
from _fidelity_verdicts import (
    Results,
    Verdict,
    decline,
    last_accuracy,
    mean_curves,
    rise,
    roughness,
    runs_of,
    scores,
    spread,
)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def counted(seeds: int) -> str:
    """Return "1 seed", "2 seeds"."""
    return f"{seeds} seed{'' if seeds == 1 else 's'}"


def clustering_tables(setting: Setting, results: Results) -> list[str]:
    """Return the partition of each similarity against the known groups."""
    lines: list[str] = []
    for update in ("gradient", "fedavg"):
        for late in (False, True):
            rows = []
            seeds = 0
            for name in SIMILARITIES:
                columns = [
                    scores(results, name, update=update, late=late, field=field)
                    for field in ("stop", "skip", "average_linkage", "within_between")
                ]
                seeds = len(columns[0])
                if seeds:
                    reference = " (reference, not private)" if name == COSINE else ""
                    rows.append(
                        [
                            name + reference,
                            *(spread(column) for column in columns[:3]),
                            spread(columns[3], ".3f"),
                        ]
                    )
            if rows:
                when = f"round {setting.late_round if late else 1}"
                header = (
                    f"{when}, update = {update}, {counted(seeds)}",
                    "ARI, edge rule stop",
                    "ARI, edge rule skip",
                    "ARI, average linkage, true K",
                    "distance within / between",
                )
                lines += [*table(header, rows), ""]
    return lines


def _by_round(runs: Sequence[Mapping[str, Any]], field: str, rounds: int) -> list[list[float]]:
    """Return, for each round, the values of the runs that completed it."""
    return [
        [run[field][t] for run in runs if len(run[field]) > t and run[field][t] is not None]
        for t in range(rounds)
    ]


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _outcome(runs: Sequence[Mapping[str, Any]]) -> str:
    ended = sorted(run["rounds"] + 1 for run in runs if run["status"] == "diverged")
    if not ended:
        return "completed"
    return f"diverged at round {', '.join(map(str, ended))} ({len(ended)} of {len(runs)})"


def training_tables(setting: Setting, results: Results) -> list[str]:
    """Return accuracy, clipping threshold and clustering by round."""
    by_seed = runs_of(results)
    runs = {
        name: [found[name] for found in by_seed.values() if name in found] for name in RUN_ORDER
    }
    runs = {name: found for name, found in runs.items() if found}
    if not runs:
        return []
    numbers = [str(t) for t in range(1, setting.rounds + 1)]
    accuracy, phi, ari = [], [], []
    for name, found in runs.items():
        means = [
            f"{100 * np.mean(v):.1f}" if v else "–"
            for v in _by_round(found, "accuracy", setting.rounds)
        ]
        last = spread([last_accuracy(run) for run in found], ".1f")
        accuracy.append([name, *means, last, _outcome(found), str(len(found))])
        norms = _by_round(found, "phi", setting.rounds)
        if any(norms):
            phi.append([name, *(f"{np.mean(v):.3g}" if v else "–" for v in norms)])
        pre, final = (
            [float(np.mean(values)) for run in found if (values := _present(run[field]))]
            for field in ("pre_ari", "final_ari")
        )
        if pre and final:
            ari.append([name, spread(pre), spread(final)])
    head = "accuracy, %, mean; round"
    lines = table((head, *numbers, "last complete round", "outcome", "seeds"), accuracy)
    if phi:
        lines += ["", *table(("clipping threshold Phi, mean; round", *numbers), phi)]
    if ari:
        header = ("ARI, mean over complete rounds", "pre-clusters", "final clusters")
        lines += ["", *table(header, ari)]
    return [*lines, ""]


def overlap_table(results: Results) -> list[str]:
    """Return the curves of Figure 11(a)."""
    curves, seeds = mean_curves(results)
    if not seeds:
        return []
    each = [parts["overlap"]["curves"] for parts in results.values() if "overlap" in parts]
    rows = []
    for name, curve in curves.items():
        falling = sum(rise(np.asarray(one[name])) == 0 for one in each)
        rows.append(
            [
                name,
                *(f"{value:.2f}" for value in curve),
                f"{decline(curve):.2f}",
                f"{roughness(curve):.3f}",
                f"{rise(curve):.2f}",
                f"{falling} of {seeds}",
            ]
        )
    header = (
        f"overlap with U1, {counted(seeds)}",
        *(f"{percent} %" for percent in OVERLAPS),
        "decline",
        "roughness",
        "rise",
        "only falls",
    )
    return [*table(header, rows), ""]


def verdict_table(found: Sequence[Verdict]) -> list[str]:
    """Return the verdicts."""
    rows = [[v.claim, v.section, v.paper, v.ours, str(v.seeds), v.verdict] for v in found]
    return [*table(("claim", "section", "paper", "here", "seeds", "verdict"), rows), ""]
