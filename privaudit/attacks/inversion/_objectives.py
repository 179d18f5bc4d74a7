"""What a dummy update's gradient is compared with; every objective is zero at a perfect match.

An objective is made for a set of *jobs*: ``rows[j]`` is the target that job ``j`` attacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from privaudit.attacks.inversion._factors import UpdateGradients
from privaudit.attacks.inversion._targets import Targets

__all__ = [
    "Objective",
    "ObjectiveMaker",
    "cosine",
    "masked_cosine",
    "profile_cosine",
    "relative_squared",
    "sorted_values",
    "total_variation",
    "zero_filled_cosine",
]

#: Maps gradients of R updates to R losses.
Objective: TypeAlias = Callable[[UpdateGradients], Tensor]
#: Makes the objective of the jobs whose targets are ``rows``.
ObjectiveMaker: TypeAlias = Callable[[Tensor], Objective]

_TINY = 1e-12

_REFRESH = 10


def _one_minus_cosine(product: Tensor, squared: Tensor, target_norm: Tensor) -> Tensor:
    return 1 - product / (squared.clamp_min(_TINY**2).sqrt() * target_norm.clamp_min(_TINY))


def cosine(targets: Targets) -> ObjectiveMaker:
    """One minus the cosine with whole gradients (N, d); Geiping et al. 2020."""
    norms = targets.matrix.norm(dim=1)

    def make(rows: Tensor) -> Objective:
        wanted, norm = targets.take(rows), norms[rows]
        return lambda g: _one_minus_cosine(*g.dot_and_norm(wanted), norm)

    return make


def relative_squared(targets: Targets) -> ObjectiveMaker:
    """Squared distance to whole gradients (N, d) over their squared norm; Zhu et al. 2019.

    Computed as ``|g|^2 - 2 <g, t> + |t|^2``, which needs no whole gradient and is exact to about
    1e-15 of ``|t|^2`` in double precision; single precision would lose all that matters.
    """
    scale = targets.matrix.square().sum(1).clamp_min(_TINY)

    def make(rows: Tensor) -> Objective:
        wanted, norm = targets.take(rows), scale[rows]

        def objective(gradients: UpdateGradients) -> Tensor:
            dot, squared = gradients.dot_and_norm(wanted)
            return (squared - 2 * dot) / norm + 1

        return objective

    return make


def masked_cosine(indices: Tensor, values: Tensor) -> ObjectiveMaker:
    """One minus the cosine over the known coordinates only (N, k); the others are free."""
    norms = values.norm(dim=1)

    def make(rows: Tensor) -> Objective:
        where, wanted, norm = indices[rows], values[rows], norms[rows]

        def objective(gradients: UpdateGradients) -> Tensor:
            seen = gradients.gather(where)
            return _one_minus_cosine((seen * wanted).sum(1), seen.square().sum(1), norm)

        return objective

    return make


def zero_filled_cosine(indices: Tensor, values: Tensor) -> ObjectiveMaker:
    """One minus the cosine with gradients that are zero except at the known coordinates (N, k)."""
    norms = values.norm(dim=1)

    def make(rows: Tensor) -> Objective:
        where, wanted, norm = indices[rows], values[rows], norms[rows]

        def objective(gradients: UpdateGradients) -> Tensor:
            product = (gradients.gather(where) * wanted).sum(1)
            return _one_minus_cosine(product, gradients.squared_norm(), norm)

        return objective

    return make


def sorted_values(values: Tensor) -> ObjectiveMaker:
    """Compare sorted values: the dummy's k largest by magnitude with the k observed ones (N, k).

    Squared distance of the two sorted sequences over the squared norm of the observed one, which
    is the one-dimensional optimal-transport cost between the two sets. Which k coordinates are
    the largest is found anew at every ``_REFRESH``-th evaluation, because it costs most of the
    time in large networks and changes slowly.
    """
    ordered = values.sort(dim=1).values
    count = values.shape[1]

    def make(rows: Tensor) -> Objective:
        wanted = ordered[rows]
        scale = wanted.square().sum(1).clamp_min(_TINY)
        top = torch.empty(0)
        evaluations = 0

        def objective(gradients: UpdateGradients) -> Tensor:
            nonlocal top, evaluations
            if evaluations % _REFRESH == 0:
                magnitudes = gradients.flat().detach().abs()
                top = magnitudes.topk(count, dim=1, sorted=False).indices
            evaluations += 1
            seen = gradients.gather(top).sort(dim=1).values
            return (seen - wanted).square().sum(1) / scale

        return objective

    return make


def profile_cosine(
    indices: Tensor, signs: Tensor, profile: Tensor, weights: Tensor | None = None
) -> ObjectiveMaker:
    """One minus the cosine of sign-corrected entries with a magnitude profile.

    Parameters
    ----------
    indices : Tensor of int64, shape (N, k)
        Coordinates of each target, largest magnitude first.
    signs : Tensor, shape (N, k)
        +1 or -1 where the sign of the entry is known, 0 where its magnitude is compared.
    profile : Tensor, shape (k,) or (N, k)
        Expected magnitude at each rank.
    weights : Tensor, shape (N, k), optional
        Factors of both sides, entry by entry.
    """
    every = profile.expand(len(indices), -1)
    wanted = every if weights is None else every * weights
    norms = wanted.norm(dim=1)

    def make(rows: Tensor) -> Objective:
        where, sign, target, norm = indices[rows], signs[rows], wanted[rows], norms[rows]
        factors = None if weights is None else weights[rows]

        def objective(gradients: UpdateGradients) -> Tensor:
            seen = gradients.gather(where)
            compared = torch.where(sign == 0, seen.abs(), seen * sign)
            if factors is not None:
                compared = compared * factors
            return _one_minus_cosine((compared * target).sum(1), compared.square().sum(1), norm)

        return objective

    return make


def total_variation(images: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels, any number of channels; shape (n,)."""
    total = images.new_zeros(len(images))
    if images.shape[2] > 1:
        total = total + (images[:, :, 1:] - images[:, :, :-1]).abs().mean((1, 2, 3))
    if images.shape[3] > 1:
        total = total + (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3))
    return total
