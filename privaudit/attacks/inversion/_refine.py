"""Images of single records that meet what is known of the layers' inputs; imports torch.

Matching gradients by first-order steps ends early: the equations are badly conditioned, and the
derivatives of a network of rectified units jump. Gauss-Newton steps meet what the layers are known
to have seen (:mod:`._equations`); the entries that do not tell a layer's inputs are matched by
first-order steps again, in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._calibration import held_out, mean_decibels
from privaudit.attacks.inversion._equations import PIXELS, Equations
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._known_inputs import KnownInputs, known_inputs, tail_of
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.attacks.inversion._options import MatchingOptions, Refinement
from privaudit.datasets.base import LabelledImages

__all__ = [
    "Kept",
    "Read",
    "Reading",
    "gains_of_refinement",
    "read_entries",
    "refined",
]

Int64 = npt.NDArray[np.int64]

#: Which image of a refinement is kept: that whose gradient is nearest to what was seen, or the last
#: one that Gauss-Newton steps gave.
Kept: TypeAlias = Literal["nearest", "last"]

#: Weights of the total variation in the relative squared residual, first and last, by turn.
_VARIATION = ((1e-1, 1e-4), (1e-2, 1e-4), (1e-2, 1e-5))

#: Of the first-order steps between: how many, their learning rate, and the weight of the total
#: variation, by turn.
_ITERATIONS = 100
_LEARNING_RATE = 0.03
_WEIGHTS = (0.03, 0.01, 0.003)

#: Auxiliary records on which it is tried, and how many times as many there must be.
_TRIED = 6
_LEFT = 5

_IMAGES_AT_ONCE = 16


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What messages tell of the layers' inputs, and how gradients are compared with them.

    Attributes
    ----------
    inputs : tuple of sequence of KnownInputs
        Of each target.
    make : ObjectiveMaker
    """

    inputs: tuple[Sequence[KnownInputs], ...]
    make: ObjectiveMaker


#: From images so far (targets, channels, height, width), what the messages tell.
Read: TypeAlias = Callable[[Tensor], Reading]


def read_entries(engine: GradientEngine, where: Tensor, values: Tensor, *, largest: bool) -> Read:
    """Return what exact entries tell, whatever the image.

    Parameters
    ----------
    where : Tensor of int64, shape (targets, k)
    values : Tensor, shape (targets, k)
    largest : bool
        Whether the known entries are each gradient's largest.
    """
    tail = tail_of(engine)
    if tail is None:
        inputs: tuple[Sequence[KnownInputs], ...] = ((),) * len(where)
    else:
        inputs = tuple(
            known_inputs(tail, at, entries, largest=largest)
            for at, entries in zip(where.cpu(), values.cpu(), strict=True)
        )
    reading = Reading(inputs, objectives.masked_cosine(where, values))
    return lambda _: reading


def refined(
    found: _search.Found,
    engine: GradientEngine,
    labels: Int64,
    read: Read,
    *,
    refinement: Refinement,
    kept: Kept,
    options: MatchingOptions,
    rng: np.random.Generator,
) -> tuple[_search.Found, dict[str, float]]:
    """Return images moved to what messages tell of the layers' inputs, and diagnostics.

    Parameters
    ----------
    found : Found
        Where the first turn begins.
    labels : ndarray of int64, shape (targets, 1)
    kept : {"nearest", "last"}
        "nearest" keeps, of all images of a target that came up on the way, the first one too,
        that whose gradient is nearest to what is known of it.

    Returns
    -------
    Found
        Its losses are those of the reading's objective. What was found, where the network does not
        end in a layer with biases, an image has too many pixels, updates are of several records, or
        nothing tells what a layer saw.
    """
    if engine.records > 1 or math.prod(engine.input_shape) > PIXELS:
        return found, {"refined": 0.0}
    told = read(found.images[:, 0].clamp(0, 1))
    if not any(told.inputs):
        return found, {"refined": 0.0}
    ways, evaluations = _ways(
        found, engine, labels, read, refinement=refinement, options=options, rng=rng
    )
    images, losses, changed = _chosen(ways, engine, labels, read, kept)
    return replace(
        found, images=images, losses=losses, evaluations=found.evaluations + evaluations
    ), {
        "refined": changed,
        "layers known": float(np.mean([len(layers) for layers in told.inputs])),
    }


def _ways(
    found: _search.Found,
    engine: GradientEngine,
    labels: Int64,
    read: Read,
    *,
    refinement: Refinement,
    options: MatchingOptions,
    rng: np.random.Generator,
) -> tuple[list[Tensor], int]:
    """Return the images of every half turn, the first ones too, and evaluations made."""
    images, evaluations = found.images.clamp(0, 1), 0
    ways = [images]
    for turn in range(refinement.turns):
        at = min(turn, len(_VARIATION) - 1)
        told = read(images[:, 0])
        moved = images.clone()
        for target, layers in enumerate(told.inputs):
            if layers:
                equations = Equations(engine, layers)
                moved[target] = equations.solve(images[target], refinement.steps, _VARIATION[at])
        again = replace(
            options,
            prior="none",
            restarts=1,
            group_consistency=0.0,
            iterations=min(_ITERATIONS, options.iterations),
            learning_rate=_LEARNING_RATE,
            total_variation=_WEIGHTS[at],
        )
        matched = _search.search(
            engine,
            told.make,
            labels,
            options=again,
            auxiliary=None,
            rng=rng,
            start=moved.cpu().numpy(),
        )
        images = matched.images.clamp(0, 1)
        evaluations += matched.evaluations
        ways += [moved, images]
    return ways, evaluations


def _chosen(
    ways: Sequence[Tensor], engine: GradientEngine, labels: Int64, read: Read, kept: Kept
) -> tuple[Tensor, Tensor, float]:
    """Return images, their losses (targets,), and the share that is not the first one's."""
    make = read(ways[-1][:, 0]).make
    soft = one_hot(labels.ravel(), engine)

    def distances(images: Tensor) -> Tensor:
        parts = []
        for rows in torch.arange(len(images), device=images.device).split(_IMAGES_AT_ONCE):
            with torch.no_grad():
                parts.append(make(rows)(engine.gradients(images[rows, 0], soft[rows])))
        return torch.cat(parts).nan_to_num(nan=math.inf)

    best, lowest = ways[0].clone(), distances(ways[0])
    first = lowest.clone()
    if kept == "last":
        # First-order steps follow the last Gauss-Newton ones.
        return (
            ways[-2],
            distances(ways[-2]),
            float((ways[-2] != best).flatten(1).any(1).double().mean()),
        )
    for images in ways[1:]:
        reached = distances(images)
        better = reached < lowest
        best[better] = images[better]
        lowest = torch.where(better, reached, lowest)
    return best, lowest, float((lowest < first).double().mean())


def gains_of_refinement(
    options: MatchingOptions,
    engine: GradientEngine,
    auxiliary: LabelledImages,
    observe: Callable[[Tensor, Int64], tuple[ObjectiveMaker, Read]],
    *,
    refinement: Refinement,
    kept: Sequence[Kept],
    rng: np.random.Generator,
) -> dict[Kept, float]:
    """Return by how many decibels refinement brings auxiliary records nearer, on average.

    A fitted prior knows what few entries leave open, and refinement leaves it. Where so few are
    seen that this costs more than it gains, the adversary learns it from records of its own, which
    are kept out of what the prior is fitted to.

    Parameters
    ----------
    observe : callable
        From gradients (n, d) and labels (n,) of records, the objective of a message about each,
        and what it tells.
    kept : sequence of {"nearest", "last"}
        The rules to try.

    Returns
    -------
    dict
        By rule. Empty where there are too few auxiliary records to tell, or messages tell nothing
        of the layers' inputs.
    """
    if len(auxiliary) < _LEFT * _TRIED:
        return {}
    seed = int(rng.integers(2**31))
    own, rest, images, gradients = held_out(engine, auxiliary, _TRIED, seed=seed)
    labels = own.labels[:, None]
    make, read = observe(gradients, own.labels)
    found = _search.search(engine, make, labels, options=options, auxiliary=rest, rng=rng)
    if not any(read(found.images[:, 0].clamp(0, 1)).inputs):
        return {}
    ways, _ = _ways(found, engine, labels, read, refinement=refinement, options=options, rng=rng)
    before = mean_decibels(found.images, images)
    return {
        rule: mean_decibels(_chosen(ways, engine, labels, read, rule)[0], images) - before
        for rule in kept
    }
