"""Which scores fit which attack."""

from __future__ import annotations

from functools import partial

import numpy as np

from privaudit.attacks.base import Attack
from privaudit.campaigns.cells import Scorer
from privaudit.campaigns.runs import RecordedRun
from privaudit.scoring.labels import dominant_label, label_accuracy, label_overlap
from privaudit.scoring.linking import link_accuracy
from privaudit.scoring.reconstruction import identification, psnr, ssim

__all__ = ["Named", "image_scorers", "label_scorers", "scorers_for"]

#: Name, scorer and unit; the first of several gives the headline figure.
Named = tuple[tuple[str, Scorer, str], ...]


def image_scorers(run: RecordedRun) -> Named:
    """Return the scores of reconstructed images."""
    return (
        ("identification", partial(identification, pool=run.auxiliary), "proportion"),
        ("PSNR", psnr, "dB"),
        ("SSIM", ssim, ""),
    )


def label_scorers(run: RecordedRun) -> Named:
    """Return the scores of inferred labels: of the only record, or of a user's many."""
    truth = run.truth
    users = run.transcript.ids("user")
    if truth is not None and all(np.size(truth.get(u, "labels")) == 1 for u in users):
        return (("label accuracy", label_accuracy, "proportion"),)
    return (("dominant label", dominant_label, "proportion"), ("label overlap", label_overlap, ""))


def scorers_for(attack: Attack, run: RecordedRun) -> Named:
    """Return the scores that fit an attack; none if the truth was not handed over."""
    if run.truth is None:
        return ()
    if attack.name.startswith("inversion/"):
        return image_scorers(run)
    if attack.name.startswith("inference/labels"):
        return label_scorers(run)
    if attack.name.startswith("reidentification/"):
        return (("link accuracy", link_accuracy, "proportion"),)
    return ()
