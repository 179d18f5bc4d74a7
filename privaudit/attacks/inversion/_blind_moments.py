"""Label shares from moments of the values, which the order of the coordinates does not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.inversion._blind_templates import Templates

__all__ = ["Moments", "moments"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Blocks of neighbours in the order of importance, each longer than the one before it.
_BLOCKS = 8

#: Weight of first moments; those of second order have one.
_FIRST = 0.3

_RATE = 0.05

#: Rounds in which blocks and coordinates are balanced.
_BALANCING = 10

#: Added to shares before their logarithm is taken.
_LEAST = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    r"""Sums and products of users' values, block by block of the order of importance.

    A sum over coordinates does not depend on their order. With V = h W + ..., that of a block B is
    :math:`\sum_{l \in B} V_{il} V_{jl} \approx h_i^T K_B h_j` with
    :math:`K_B = \sum_e P(e \in B) W_e W_e^T`, and :math:`P(e \in B)` comes from the simulated
    order of importance. Few unknowns (label shares) face many such equations.

    Attributes
    ----------
    products : ndarray of float64, shape (blocks, users, users)
        Divided by ``lengths``, their norms.
    sums : ndarray of float64, shape (blocks, users)
        Divided by ``sizes``, their norms.
    edges : ndarray of int64, shape (blocks + 1,)
        First place of each block, from 1.
    """

    products: Float64
    lengths: Float64
    sums: Float64
    sizes: Float64
    edges: Int64

    def fit(
        self, shares: Float64, templates: Sequence[Templates], *, steps: int
    ) -> tuple[Float64, Float64]:
        """Descend on the difference of moments, from each start by itself.

        Parameters
        ----------
        shares : ndarray of float64, shape (starts, users, classes)
        templates : sequence of Templates
            One for all starts, or one a start: they differ in the order of importance.
        steps : int
            Of Adam.

        Returns
        -------
        shares : ndarray of float64, shape (starts, users, classes)
        losses : ndarray of float64, shape (starts,)
        """
        import torch

        def tensor(array: Float64) -> torch.Tensor:
            return torch.from_numpy(array.astype(np.float32))

        inner, first, noise = (
            tensor(np.stack(part)) for part in zip(*map(self._expected, templates), strict=True)
        )
        products, sums = tensor(self.products), tensor(self.sums)
        logits = tensor(np.log(shares + _LEAST)).requires_grad_()
        optimiser = torch.optim.Adam([logits], lr=_RATE)
        diagonal = noise[..., None, None] * torch.eye(products.shape[-1])

        def losses() -> torch.Tensor:
            own = logits.softmax(-1)[:, None]
            second = own @ inner @ own.transpose(-1, -2) + diagonal - products
            summed = (own @ first[..., None])[..., 0] - sums
            total: torch.Tensor = second.square().sum((-1, -2)).mean(1)
            return total + _FIRST * summed.square().sum(-1).mean(1)

        for _ in range(steps):
            optimiser.zero_grad()
            losses().sum().backward()
            optimiser.step()
        with torch.no_grad():
            found = logits.softmax(-1).numpy().astype(np.float64)
            return found, losses().numpy().astype(np.float64)

    def _expected(self, templates: Templates) -> tuple[Float64, Float64, Float64]:
        """Return what users of one class would give: (B, C, C), (B, C) and, of noise, (B,)."""
        classes = templates.classes
        share = self._membership(templates)
        means, along = templates.loadings[:classes], templates.loadings[classes:]
        inner = np.stack([(means * row) @ means.T for row in share])
        noise = share @ (templates.noise + np.square(along).sum(0))
        return (
            inner / self.lengths[:, None, None],
            share @ means.T / self.sizes[:, None],
            noise / self.lengths,
        )

    def _membership(self, templates: Templates) -> Float64:
        """Return the probability of each candidate (column) to lie in each block (row)."""
        from scipy.special import ndtr

        deviation = np.sqrt(templates.log_rank_variance)
        below = ndtr((np.log(self.edges[1:])[:, None] - templates.log_rank) / deviation)
        share = np.diff(below, axis=0, prepend=0.0)
        for _ in range(_BALANCING):
            total = np.maximum(share.sum(1), 1e-12)
            share *= (np.diff(self.edges) / total)[:, None]
            share /= np.maximum(share.sum(0), 1)
        balanced: Float64 = share
        return balanced


def moments(values: Float64) -> Moments:
    """Return the moments of values in the order of importance.

    Parameters
    ----------
    values : ndarray of float64, shape (users, k)
        In the unit of the templates.
    """
    k = values.shape[1]
    edges = np.unique(np.round(np.geomspace(1, k + 1, _BLOCKS + 1)).astype(np.int64))
    blocks = np.split(values, edges[1:-1] - 1, axis=1)
    products = np.stack([block @ block.T for block in blocks])
    sums = np.stack([block.sum(1) for block in blocks])
    lengths = np.maximum(np.linalg.norm(products, axis=(1, 2)), 1e-30)
    sizes = np.maximum(np.linalg.norm(sums, axis=1), 1e-30)
    return Moments(products / lengths[:, None, None], lengths, sums / sizes[:, None], sizes, edges)
