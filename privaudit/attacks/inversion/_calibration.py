"""Which prior to use, by attacking auxiliary records first; imports torch.

Whether a fitted prior helps, and how much variation an image should be allowed, depends on data and
parameters. The adversary need not know it beforehand: it makes the message of an auxiliary record,
attacks that in every way it might attack the users', and sees which way comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.attacks.inversion._options import MatchingOptions
from privaudit.attacks.inversion._priors import fills_its_space
from privaudit.datasets.base import LabelledImages

__all__ = ["Observe", "calibrated", "candidates", "held_out", "mean_decibels"]

Int64 = npt.NDArray[np.int64]

#: From gradients (n, d) and labels (n,) of records, the objective of a message about each.
Observe = Callable[[Tensor, Int64], ObjectiveMaker]

#: Weights of total variation that are tried, over the one that the options name: beside a fitted
#: prior, which may need none, and alone.
_BESIDE = (0.0, 1.0, 3.0)
_ALONE = (1.0, 3.0)

#: So many times the calibration's records must be left for priors and class means.
_LEFT = 4

#: Mean squared error of a perfect guess, so that its PSNR is finite.
_PERFECT = 1e-12


@dataclass(frozen=True, slots=True)
class _Candidate:
    words: str
    fitted: bool
    variation: float
    options: MatchingOptions


def candidates(
    options: MatchingOptions, auxiliary: LabelledImages, *, classes: int
) -> list[_Candidate]:
    """Return the ways to choose from: pixels alone and, where it is fair, the fitted Gaussian.

    See :func:`._priors.fills_its_space` for where it is not.
    """
    found = []
    if fills_its_space(auxiliary, classes):
        for weight in (factor * options.total_variation for factor in _BESIDE):
            way = replace(options, prior="gaussian", prior_variation=weight)
            found.append(_Candidate(f"gaussian, variation {weight:g}", True, weight, way))
    for weight in (factor * options.total_variation for factor in _ALONE):
        way = replace(options, prior="none", total_variation=weight)
        found.append(_Candidate(f"none, variation {weight:g}", False, weight, way))
    return found


def calibrated(
    options: MatchingOptions,
    engine: GradientEngine,
    auxiliary: LabelledImages | None,
    observe: Observe,
    *,
    rng: np.random.Generator,
) -> tuple[MatchingOptions, dict[str, float]]:
    """Return options whose prior and variation did best on auxiliary records, and diagnostics.

    The records attacked are kept out of what priors and class means are fitted to; their labels
    are given. The way of highest mean PSNR is chosen, the first of equal ones. Options that name a
    prior, updates of several records, and auxiliary data of too few records are left as they are.
    """
    if (
        options.prior != "auto"
        or options.calibration == 0
        or engine.records > 1
        or auxiliary is None
        or len(auxiliary) < (_LEFT + 1) * options.calibration
    ):
        return options, {"calibrated": 0.0}
    seed = int(rng.integers(2**31))
    own, rest, images, gradients = held_out(engine, auxiliary, options.calibration, seed=seed)
    make = observe(gradients, own.labels)
    ways = candidates(options, rest, classes=engine.classes)
    reached, evaluations = [], 0
    for way in ways:
        found = _search.search(
            engine,
            make,
            own.labels[:, None],
            options=way.options,
            auxiliary=rest,
            rng=np.random.default_rng(seed),
        )
        reached.append(mean_decibels(found.images, images))
        evaluations += found.evaluations
    best = ways[int(np.argmax(reached))]
    told = {
        "calibrated": 1.0,
        "calibration evaluations": float(evaluations),
        "chosen prior is fitted": float(best.fitted),
        "chosen variation": best.variation,
    }
    for way, value in zip(ways, reached, strict=True):
        told[f"PSNR on auxiliary records: {way.words}"] = value
    return best.options, told


def held_out(
    engine: GradientEngine, auxiliary: LabelledImages, count: int, *, seed: int
) -> tuple[LabelledImages, LabelledImages, Tensor, Tensor]:
    """Return auxiliary records to attack, the others, and the former's images and gradients.

    Images are (count, ...), gradients (count, d).
    """
    order = np.random.default_rng(seed).permutation(len(auxiliary))
    own = auxiliary.take(order[:count])
    images = _search.tensor(own.images, engine)
    gradients = engine.gradients(images, one_hot(own.labels, engine)).flat().detach()
    return own, auxiliary.take(np.sort(order[count:])), images, gradients


def mean_decibels(found: Tensor, images: Tensor) -> float:
    """Return the mean PSNR of what was found (n, 1, ...) against images (n, ...)."""
    error = (found[:, 0].clamp(0, 1) - images).square().mean((1, 2, 3))
    return float(-10 * error.double().clamp_min(_PERFECT).log10().mean())
