"""Scores and control experiments of attacks on the indices of vertical clustering."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from privaudit.attacks.base import Attack, Guesses
from privaudit.attacks.control import deranged_rows
from privaudit.campaigns.cells import Control, Scorer
from privaudit.errors import InvalidDataError
from privaudit.scoring.estimate import Scores
from privaudit.scoring.membership import auc_scores, hit_scores
from privaudit.scoring.records import (
    attribute_accuracy,
    code_bijection,
    grid_accuracy,
    linked_within,
    normalised_error,
    record_identification,
    record_psnr,
    singled_out,
)
from privaudit.transcript import PartyId, Truth

__all__ = ["grid_columns", "record_scorers", "row_control"]

#: Attacks whose guesses are records.
_RECORDS = (
    "indices/known-sample",
    "indices/auxiliary-alignment",
    "indices/frequency-matching",
    "indices/cross-party",
)


def row_control(attack: Attack, rows: int) -> Control:
    """Return the control experiment of an attack on uploads of ``rows`` rows.

    Whose row is whose is wrong; for membership, which does not care, the columns of each row are
    other rows' as well.
    """
    if attack.name == "indices/membership":
        return partial(deranged_rows, rows=rows, separately=True)
    return partial(deranged_rows, rows=rows)


def record_scorers(
    attack: Attack,
    *,
    parties: Sequence[PartyId] | None = None,
    pictures: bool = False,
    false_positives: float | None = 0.01,
) -> tuple[tuple[str, Scorer, str], ...]:
    """Return the scores that fit an attack on indices; the first gives the headline figure.

    Parameters
    ----------
    parties : sequence of PartyId, optional
        Whose columns reconstructions are compared in; all by default.
    pictures : bool
        Whether records are pictures with values in [0, 1].
    false_positives : float or None
        At which the hits of an attack on membership are counted; None leaves them out.
    """
    if attack.name in _RECORDS:
        error = partial(normalised_error, parties=parties)
        named = partial(record_identification, parties=parties)
        shown: tuple[tuple[str, Scorer, str], ...] = (
            ("normalised reconstruction error", error, ""),
            ("identification", named, "proportion"),
        )
        if pictures:
            return (*shown, ("PSNR", partial(record_psnr, parties=parties), "dB"))
        return shown
    if attack.name == "indices/membership":
        area: tuple[str, Scorer, str] = ("membership AUC", auc_scores, "")
        if false_positives is None:
            return (area,)
        hits = partial(hit_scores, false_positives=false_positives)
        return ((f"members found at {false_positives:.0%} false alarms", hits, "proportion"), area)
    if attack.name == "indices/record-linking":
        ranks = (1, int(getattr(attack, "ranks", 1)))
        return tuple(
            (f"top-{r} re-identification", partial(linked_within, ranks=r), "proportion")
            for r in dict.fromkeys(ranks)
        )
    return _OTHERS.get(attack.name, ())


def grid_columns(truth: Truth, *, levels: int) -> dict[int, float]:
    """Return the grid step of each column of a run whose values lie on a grid.

    Parameters
    ----------
    levels : int
        Columns with more distinct values, or with one only, are left out.
    """
    steps = {}
    for arrays in truth.targets.values():
        for i, column in enumerate(arrays.get("columns", ())):
            values = np.unique(arrays["features"][:, i].astype(np.float64))
            if not 1 < len(values) <= levels:
                continue
            step = float(np.diff(values).min())
            places = (values - values[0]) / step
            if np.abs(places - np.round(places)).max() < 1e-3:
                steps[int(column)] = step
    return steps


def _grid_scores(guesses: Guesses, truth: Truth) -> Scores:
    """Score columns by the share of values that are right, in units of each column's own grid."""
    steps = grid_columns(truth, levels=2**16)
    on_grid = [i for i, t in enumerate(guesses.target_ids) if _column(t) in steps]
    if not on_grid:
        raise InvalidDataError("no attacked column has its values on a grid")
    scaled = {
        target: {
            name: _in_steps(array, arrays["columns"], steps) if name == "features" else array
            for name, array in arrays.items()
        }
        for target, arrays in truth.targets.items()
    }
    return grid_accuracy(
        Guesses(
            tuple(guesses.target_ids[i] for i in on_grid),
            tuple(guesses.values[i] for i in on_grid),
            guesses.scores[on_grid],
        ),
        Truth(scaled),
    )


def _column(target: str) -> int:
    return int(target.removeprefix("column-"))


def _in_steps(features: np.ndarray, columns: np.ndarray, steps: dict[int, float]) -> np.ndarray:
    result = features.astype(np.float64)
    for i, column in enumerate(columns):
        if int(column) in steps:
            values = result[:, i]
            result[:, i] = np.round((values - values.min()) / steps[int(column)])
    return result


_OTHERS: dict[str, tuple[tuple[str, Scorer, str], ...]] = {
    "indices/code-recovery": (("codes recovered", code_bijection, "proportion"),),
    "indices/integer-grid": (("integers recovered", _grid_scores, ""),),
    "indices/singling-out": (("singled out", singled_out, "proportion"),),
    "indices/cluster-attribute": (("attribute accuracy", attribute_accuracy, "proportion"),),
}
