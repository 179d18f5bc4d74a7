"""The paper's figure 10 redone: one row a view, with scores under each picture and beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from privaudit.attacks.base import Guesses
from privaudit.campaigns.cells import Measurement
from privaudit.campaigns.galleries import SHOWN, first_image
from privaudit.campaigns.planned import Planned, percent
from privaudit.campaigns.runs import RecordedRun
from privaudit.reports.figures import gallery_png
from privaudit.reports.model import Gallery, GalleryRow, MeasuredTable
from privaudit.reports.picture_grid import PictureRow, picture_grid
from privaudit.scoring.estimate import Estimate, Scores, estimate
from privaudit.scoring.prior_images import prior_images
from privaudit.scoring.reconstruction import psnr, ssim
from privaudit.transcript import Array, PartyId, Truth

__all__ = ["ExposureFigure", "exposure_figure"]

Results = Sequence[tuple[Planned, Measurement]]

_CONFIDENCE: Final = 0.95

#: What an attack by linear algebra says of itself, without knowing the records: on which share of
#: updates it was exact. Where that is not most of them it is a search, weaker than the others.
_SOLVED: Final = "updates solved exactly"
_MOST: Final = 0.5


@dataclass(frozen=True, slots=True)
class _View:
    """A row: whose view, by which attacks, the strongest first, and the paper.

    It shows the first that could be measured, and before all others one that succeeded by its own
    account: an exact attack also runs on networks for which its algebra does not hold.
    """

    label: str
    undefended: bool
    coalition: str
    attacks: tuple[str, ...]
    claim: str


_VIEWS: Final = (
    _View(
        "Server: full gradient",
        True,
        "server",
        ("inversion/analytic", "inversion/cosine"),
        "not shown",
    ),
    _View(
        "Top-k values at their coordinates",
        True,
        "server",
        ("inversion/top-k",),
        "10(a): clearer as k grows, especially from 5 % of d on",
    ),
    _View(
        "AS alone: values without πᵍ",
        False,
        "AS",
        ("inversion/blind-top-k", "inversion/sorted-values"),
        "10(b): significantly less distinguishable than 10(a)",
    ),
    _View(
        "AS + 1 user, who gives πᵍ",
        False,
        "AS + 1 user",
        ("inversion/top-k",),
        "not shown; section 6.1 grants that colluding users give πᵍ away",
    ),
    _View(
        "MS alone: ranks, no value",
        False,
        "MS",
        ("inversion/rank-profile",),
        "10(c): highly indistinguishable, as indices tell no magnitudes",
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    label: str
    claim: str
    attack: str
    images: Mapping[PartyId, Array]
    psnr: Scores | None
    ssim: Scores | None
    identified: Estimate | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ExposureFigure:
    """Figure 10 redone.

    Attributes
    ----------
    png : bytes
        The whole figure, for papers and slides.
    gallery : Gallery
        Its pictures, each with PSNR and SSIM.
    table : MeasuredTable
        Its figures by row.
    """

    png: bytes
    gallery: Gallery
    table: MeasuredTable


def exposure_figure(
    results: Results, *, probe: RecordedRun, undefended: RecordedRun, fraction: float
) -> ExposureFigure | None:
    """Return the figure, or None if nothing of it was measured.

    Parameters
    ----------
    results : sequence of (Planned, Measurement)
        All of the audit.
    probe, undefended : RecordedRun
        PA-CFL and federated averaging on the same single records.
    fraction : float
        k over the dimension.
    """
    rows = [
        _row(view, results, probe=probe, undefended=undefended, fraction=fraction)
        for view in _VIEWS
    ]
    held = [set(row.images) for row in rows if row.images]
    if not held or probe.truth is None or probe.auxiliary is None:
        return None
    targets = tuple(sorted(set.intersection(*held), key=lambda t: (len(t), t)))
    known = prior_images(targets, probe.truth, probe.auxiliary)
    baselines = {name: known[name] for name in ("class mean", "mean image")}
    rows += [_baseline(name, guesses, probe.truth) for name, guesses in baselines.items()]
    shown = targets[:SHOWN]
    dataset = probe.dataset or "unnamed data"
    title = f"Figure 10 redone on {dataset}: records rebuilt from each view"
    common = (
        f"One record and one gradient a user, the model untrained, k = {percent(fraction)} of the "
        f"{_dimension(probe):,} parameters. The first {len(shown)} of {len(targets)} targets; "
        f"medians with {_CONFIDENCE:.0%} intervals are over all n. "
    )
    note = (
        f"{common}Under each picture: PSNR in dB, SSIM. Identified: nearer to its own record than "
        "to any other of the run and of the auxiliary pool. The class mean knows the true label, "
        "the mean image nothing; no message is needed for either."
    )
    originals = {t: first_image(probe.truth, t) for t in shown}
    return ExposureFigure(
        png=picture_grid(
            [
                PictureRow("Original", (), tuple(originals[t] for t in shown)),
                *(_picture_row(row, rows[-2:], shown) for row in rows),
            ],
            title=title,
            note=note,
        ),
        gallery=Gallery(
            id="gallery-exposures",
            title=title,
            caption=f"{note} As one picture, with the figures beside it: exposures.png.",
            targets=GalleryRow(
                label="Original",
                pngs=tuple(gallery_png(originals[t]) for t in shown),
                captions=shown,
            ),
            rows=tuple(_gallery_row(row, shown) for row in rows),
        ),
        table=_table(rows, title=title, caption=common),
    )


def _dimension(run: RecordedRun) -> int:
    return len(run.transcript.public_arrays["initial-parameters"])


def _row(
    view: _View,
    results: Results,
    *,
    probe: RecordedRun,
    undefended: RecordedRun,
    fraction: float,
) -> _Row:
    digest = (undefended if view.undefended else probe).digest
    reason, spare = "no attack of this audit reads this view", None
    for attack in view.attacks:
        for item, m in results:
            cell = item.cell
            same = (cell.attack.name, cell.label, cell.digest) == (attack, view.coalition, digest)
            other_k = getattr(cell.attack, "source", "") == "update" and (
                getattr(cell.attack, "k_fraction", fraction) != fraction
            )
            if not same or other_k:
                continue
            if m.status != "measured" or not m.guesses:
                reason = m.reason or reason
                continue
            if m.diagnostics.get(_SOLVED, 1.0) > _MOST:
                return _measured_row(view, attack, m)
            spare = spare or _measured_row(view, attack, m)
    return spare or _Row(view.label, view.claim, view.attacks[0], {}, None, None, None, reason)


def _measured_row(view: _View, attack: str, m: Measurement) -> _Row:
    scores = {t.name: t.attack for t in m.triples}
    return _Row(
        view.label,
        view.claim,
        attack,
        {t: np.asarray(g) for t, g in m.guesses.items()},
        scores["PSNR"],
        scores["SSIM"],
        estimate(scores["identification"], confidence=_CONFIDENCE),
    )


def _baseline(name: str, guesses: Guesses, truth: Truth) -> _Row:
    label = {
        "class mean": "Baseline: mean image of the true class",
        "mean image": "Baseline: mean image",
    }
    return _Row(
        label[name],
        "",
        "",
        {t: np.asarray(v)[0] for t, v in zip(guesses.target_ids, guesses.values, strict=True)},
        psnr(guesses, truth),
        ssim(guesses, truth),
    )


def _picture_row(row: _Row, baselines: Sequence[_Row], shown: Sequence[PartyId]) -> PictureRow:
    text = []
    if row.psnr is None or row.ssim is None:
        text.append(f"Not applicable: {row.reason}")
    else:
        text.append(f"PSNR {_told(row.psnr)} dB, n = {len(row.psnr.per_target)}")
        similar = f"SSIM {_told(row.ssim)}"
        text.append(f"{similar}, identified {_share(row.identified)}" if row.attack else similar)
        if row.attack:
            against = ", ".join(
                f"{name} {_median(base.psnr)} dB / {_median(base.ssim)}"
                for name, base in zip(("class mean", "mean image"), baselines, strict=True)
            )
            text.append(f"Baselines: {against}")
    if row.claim:
        text.append(f"Paper: {row.claim}.")
    return PictureRow(
        row.label, tuple(text), tuple(row.images.get(t) for t in shown), _captions(row, shown)
    )


def _gallery_row(row: _Row, shown: Sequence[PartyId]) -> GalleryRow:
    return GalleryRow(
        label=row.label,
        pngs=tuple(gallery_png(row.images[t]) if t in row.images else "" for t in shown),
        captions=_captions(row, shown),
    )


def _captions(row: _Row, shown: Sequence[PartyId]) -> tuple[str, ...]:
    if row.psnr is None or row.ssim is None:
        return ()
    decibels, similar = row.psnr.per_target, row.ssim.per_target
    return tuple(f"{decibels[t]:.1f} dB, {similar[t]:.2f}" for t in shown)


def _of(scores: Scores) -> Estimate:
    return estimate(scores, confidence=_CONFIDENCE)


def _median(scores: Scores | None) -> str:
    assert scores is not None
    value = _of(scores).value
    return f"{value:.1f}" if scores.metric.startswith("PSNR") else f"{value:.2f}"


def _told(scores: Scores) -> str:
    e = _of(scores)
    digits = 1 if scores.metric.startswith("PSNR") else 2
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def _share(e: Estimate | None) -> str:
    return "" if e is None else f"{100 * e.value:.0f} % [{100 * e.low:.0f}, {100 * e.high:.0f}]"


def _table(rows: Sequence[_Row], *, title: str, caption: str) -> MeasuredTable:
    class_mean, mean_image = rows[-2], rows[-1]
    assert class_mean.psnr is not None
    assert mean_image.psnr is not None
    floor = _of(mean_image.psnr).value, _of(class_mean.psnr).value
    return MeasuredTable(
        id="exposures",
        title=title,
        caption=f"{caption}A reconstruction that does no better than the class mean shows at most "
        "that the label leaked.",
        columns=(
            "View",
            "Attack",
            "The paper's figure",
            "PSNR, dB",
            "SSIM",
            "Identified",
            "#n",
            "#Mean image, dB",
            "#Class mean, dB",
        ),
        rows=tuple(
            (
                row.label,
                row.attack,
                row.claim,
                _told(row.psnr) if row.psnr else f"not applicable: {row.reason}",
                _told(row.ssim) if row.ssim else "",
                _share(row.identified),
                len(row.psnr.per_target) if row.psnr else 0,
                *(floor if row.attack else (None, None)),
            )
            for row in rows
        ),
    )
