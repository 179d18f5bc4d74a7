"""Values that ranks tell of a record, once its derivatives are nearly known; imports torch.

The gradient of a bias is a derivative, and that at the outputs of a classifier is what the softmax
gives less the label: an image that is nearly right gives nearly the right one. What comes back
through the classifier's weights is, at every unit that is on, the gradient of a bias of the layer
before. So the magnitudes at these biases' ranks are known, as marks on a ruler; every entry between
two marks lies between their magnitudes, and the profile of auxiliary records tells where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.isotonic import isotonic_regression
from torch import Tensor

from privaudit.attacks.inversion import _objectives as objectives
from privaudit.attacks.inversion import _search
from privaudit.attacks.inversion._convolutions import inputs_of_each
from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._known_inputs import KnownInputs, Tail, inputs_from, tail_of
from privaudit.attacks.inversion._refine import Read, Reading

__all__ = ["RankValues", "rank_values", "read_ranks"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Relative distance of two neighbouring marks up to which entries between them are trusted, and the
#: weight of those that lie farther apart or outside of all marks.
_NEAR = 0.05
_LOOSE = 0.3

_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class RankValues:
    """What the ranks of one record's entries tell.

    Attributes
    ----------
    magnitudes : ndarray of float64, shape (k,)
    weights : ndarray of float64, shape (k,)
        How far each is trusted, up to one.
    least : float
        The smallest mark: no entry that has no rank is larger.
    derivatives : Tensor of float64, shape (classes,)
        At the classifier's outputs.
    """

    magnitudes: Float64
    weights: Float64
    least: float
    derivatives: Tensor


def rank_values(
    tail: Tail, indices: Int64, derivatives: Tensor, profile: Float64
) -> RankValues | None:
    """Return the magnitudes of entries from their ranks and the marks among them.

    Parameters
    ----------
    tail : Tail
        With a hidden layer.
    indices : ndarray of int64, shape (k,)
        Coordinates, that of the largest magnitude first.
    derivatives : Tensor of float64, shape (classes,)
    profile : ndarray of float64, shape (k,)
        Magnitudes of other records by rank, up to a factor.

    Returns
    -------
    RankValues or None
        None where fewer than two biases are among the ranks.
    """
    assert tail.hidden is not None
    known = torch.full((int(indices.max()) + 1,), float("nan"), dtype=torch.float64)
    for start, values in (
        (tail.bias, derivatives),
        (tail.hidden_bias, tail.returned(derivatives)),
    ):
        inside = values[: max(0, len(known) - start)]
        known[start : start + len(inside)] = inside.abs()
    found = known.numpy()[indices]
    marks = np.flatnonzero(~np.isnan(found))
    if len(marks) < 2:
        return None
    sizes = np.maximum(isotonic_regression(found[marks], increasing=False), _TINY)
    profile = np.maximum(profile, _TINY)
    ranks = np.arange(len(indices))
    ratio = np.interp(ranks, marks, np.log(sizes / profile[marks]))
    above = np.searchsorted(marks, ranks, side="right") - 1
    below = np.searchsorted(marks, ranks, side="left")
    apart = np.full(len(ranks), np.inf)
    between = (above >= 0) & (below < len(marks))
    apart[between] = np.log(sizes[above[between]] / sizes[below[between]])
    return RankValues(
        profile * np.exp(ratio),
        np.where(apart <= _NEAR, 1.0, _LOOSE),
        float(sizes[-1]),
        derivatives,
    )


def read_ranks(
    engine: GradientEngine, indices: Int64, labels: Int64, signs: Tensor, profile: Tensor
) -> Read | None:
    """Return what ranks tell, with the derivatives that an image of each record suggests.

    Parameters
    ----------
    indices : ndarray of int64, shape (targets, k)
    labels : ndarray of int64, shape (targets,)
    signs : Tensor, shape (targets, k)
        As :func:`._objectives.profile_cosine` takes them.
    profile : Tensor, shape (k,)

    Returns
    -------
    callable or None
        None where the network does not end in two fully connected layers with biases and rectified
        units between them.
    """
    tail = tail_of(engine)
    if tail is None or tail.hidden is None:
        return None
    where = _search.tensor(indices, engine)
    expected = profile.cpu().double().numpy()

    def read(images: Tensor) -> Reading:
        layers: list[list[KnownInputs]] = []
        magnitudes, weights = [], []
        for image, own, label in zip(images, indices, labels, strict=True):
            derivatives, sign = _suggested(tail, engine, image, int(label))
            told = rank_values(tail, own, derivatives, expected)
            if told is None:
                layers.append([])
                magnitudes.append(expected)
                weights.append(np.ones(len(own)))
                continue
            layers.append(_known(tail, own, told, sign))
            magnitudes.append(told.magnitudes)
            weights.append(told.weights)
        make = objectives.profile_cosine(
            where,
            signs,
            _search.tensor(np.stack(magnitudes), engine),
            _search.tensor(np.stack(weights), engine),
        )
        return Reading(tuple(layers), make)

    return read


def _suggested(
    tail: Tail, engine: GradientEngine, image: Tensor, label: int
) -> tuple[Tensor, Tensor]:
    """Return derivatives (classes,) at the classifier, and signs of the hidden layer's inputs."""
    assert tail.hidden is not None
    with torch.no_grad():
        seen, last = inputs_of_each([tail.hidden, tail.classifier], engine, image[None])
        scores = tail.classifier(last)
    derivatives = scores.flatten().cpu().double().softmax(0)
    derivatives[label] -= 1
    return derivatives, torch.where(seen.flatten().cpu() < 0, -1.0, 1.0).double()


def _known(tail: Tail, indices: Int64, told: RankValues, sign: Tensor) -> list[KnownInputs]:
    assert tail.hidden is not None
    at = torch.from_numpy(indices)
    values = torch.from_numpy(told.magnitudes).clone()
    # What the classifier sees is never negative.
    for start, factors in (
        (tail.weight, told.derivatives.sign()[:, None].expand(tail.classifier.weight.shape)),
        (tail.hidden_weight, tail.returned(told.derivatives).sign()[:, None] * sign),
    ):
        inside = (at >= start) & (at < start + factors.numel())
        values[inside] *= factors.reshape(-1)[at[inside] - start]
    return inputs_from(
        tail,
        at,
        values,
        told.derivatives,
        least=told.least,
        weights=torch.from_numpy(told.weights),
    )
