"""Reconstructed records in the report: pictures, and rows of tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privaudit.attacks.indices.granting import whole_table
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.galleries import galleries_of
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.pq_mds.adversaries import data_of_run
from privaudit.campaigns.pq_mds.audit import AuditResult
from privaudit.protocols.pq_mds import kinds
from privaudit.reports.model import Gallery, MeasuredTable
from privaudit.transcript import Array, Truth

__all__ = ["examples_table", "pictures"]


def pictures(result: AuditResult) -> list[Gallery]:
    """Return the gallery of rebuilt pictures; none where records are no pictures."""
    shape = result.numbers.image_shape
    if shape is None or not result.numbers.examples:
        return []
    shown = [
        (item, replace(m, guesses={t: g.reshape(shape) for t, g in m.guesses.items()}))
        for item, m in result.results
        if m.guesses and item.cell.digest.startswith(result.runs["main"].digest)
    ]
    whole = whole_table(data_of_run(result.runs["main"]))

    def image(truth: Truth, target: str) -> Array:
        record: Array = whole[_place(truth, target)].reshape(shape)
        return record

    return galleries_of(shown, row_label=_row_label, image=image, targets="the rows' records")


def _row_label(item: Planned) -> str:
    known = next((p for p in item.cell.setting.split(", ") if p.endswith("known rows")), "")
    told = known or f"{item.cell.label}, no known row"
    return told + (" (frequencies only)" if "frequency" in item.cell.attack.name else "")


def _place(truth: Truth, target: str) -> int:
    ids = np.asarray(truth.get(kinds.ROWS, "ids"))
    return int(np.flatnonzero(ids == int(target.removeprefix("row-")))[0])


def examples_table(result: AuditResult) -> list[MeasuredTable]:
    """Return rebuilt rows of tables beside the true ones, where the report may show them."""
    if not result.numbers.examples:
        return []
    tables = []
    for item, m in result.results:
        if not m.guesses or item.cell.attack.name != "indices/known-sample":
            continue
        name = next(n for n, r in result.runs.items() if item.cell.digest.startswith(r.digest))
        whole_rows = name == "main" and result.numbers.image_shape is None
        if item.position not in (None, result.numbers.known) or not (whole_rows or name == "table"):
            continue
        tables.append(_examples(result, name, m))
    return tables


def _examples(result: AuditResult, name: str, measured: Measurement) -> MeasuredTable:
    run = result.runs[name]
    truth, whole = run.truth or Truth(), whole_table(data_of_run(run))
    columns = result.column_names[name]
    # The columns in which records differ most say most.
    shown = np.sort(np.argsort(-whole.var(axis=0), kind="stable")[:8])
    if np.ptp(whole.var(axis=0)) < 1e-6:
        shown = np.arange(min(8, whole.shape[1]))
    rows: list[tuple[str | int | float | None, ...]] = []
    for i, target in enumerate(sorted(measured.guesses, key=lambda t: (len(t), t))[:5], start=1):
        rows.append((f"{i}, true", *(float(v) for v in whole[_place(truth, target)][shown])))
        rebuilt = np.asarray(measured.guesses[target], dtype=np.float64)
        rows.append((f"{i}, rebuilt", *(float(v) for v in rebuilt[shown])))
    rows.append(("average record", *(float(v) for v in whole.mean(axis=0)[shown])))
    return MeasuredTable(
        id=f"examples-{name}",
        title=f"Rows rebuilt by a server that knows some rows: {result.settings[name].words}",
        caption="Some columns of five rows, in the units of the run (standardised where the "
        "columns were).",
        columns=("Row", *(f"#{columns[int(c)]}" for c in shown)),
        rows=tuple(rows),
    )
