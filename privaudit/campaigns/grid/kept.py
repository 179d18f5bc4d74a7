"""Pictures that attacks rebuilt: a few are kept with a cell's result.

Only where records are images of a public data set: what is rebuilt of other data is itself a leak.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from privaudit.attacks.base import Attack
from privaudit.campaigns.runs import RecordedRun
from privaudit.datasets import DATASETS
from privaudit.reports.figures import gallery_png
from privaudit.transcript import Array, Truth

__all__ = ["pictures_of", "rebuilds_images"]

#: Pictures kept a cell.
KEPT: Final = 6


def rebuilds_images(attack: Attack, run: RecordedRun) -> bool:
    """Return whether an attack rebuilds records that are images of a public data set."""
    images = run.auxiliary is not None and run.dataset in DATASETS
    return images and attack.risk == "reconstruction"


def pictures_of(guesses: Mapping[str, Array], truth: Truth) -> list[dict[str, str]]:
    """Return the first targets with one record each, and what was made of it, as base64 PNGs."""
    kept = []
    for target in sorted(guesses, key=lambda t: (len(t), t)):
        guess, images = guesses[target], truth.targets.get(target, {}).get("images")
        if guess.ndim == 3 and images is not None and images.shape == (1, *guess.shape):
            record = np.asarray(images[0], dtype=np.float64)
            shown = np.asarray(guess, dtype=np.float64)
            kept.append(
                {
                    "target": target,
                    "record": gallery_png(record, side=1),
                    "guess": gallery_png(shown, side=1),
                }
            )
        if len(kept) == KEPT:
            break
    return kept
