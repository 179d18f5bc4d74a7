"""What a dummy image is made of and where it starts, from declared knowledge only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError

__all__ = ["Pixels", "PrincipalComponents", "Prior", "class_means"]


class Prior(Protocol):
    """Images as a function of the variables that are optimised."""

    def variables(self, images: Tensor) -> Tensor:
        """Return the variables nearest to images (n, channels, height, width)."""
        ...

    def images(self, variables: Tensor) -> Tensor:
        """Return the images, in [0, 1], of variables (n, ...)."""
        ...

    def penalty(self, variables: Tensor) -> Tensor:
        """Return what is added to the loss; shape (n,)."""
        ...

    def project(self, variables: Tensor) -> None:
        """Bring variables back into their domain, in place."""
        ...


@dataclass(frozen=True, slots=True)
class Pixels:
    """No prior but the range: the variables are the pixels, boxed to [0, 1]."""

    def variables(self, images: Tensor) -> Tensor:
        """See :class:`Prior`."""
        return images.clamp(0, 1)

    def images(self, variables: Tensor) -> Tensor:
        """See :class:`Prior`."""
        return variables

    def penalty(self, variables: Tensor) -> Tensor:
        """See :class:`Prior`."""
        return variables.new_zeros(len(variables))

    def project(self, variables: Tensor) -> None:
        """See :class:`Prior`."""
        variables.clamp_(0, 1)


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalComponents:
    """Images near the affine span of the auxiliary records' principal components.

    ``x = mean + basis @ z`` with the components scaled to unit variance, and the mean of ``z**2``
    times ``weight`` added to the loss.
    """

    mean: Tensor
    basis: Tensor
    shape: tuple[int, ...]
    weight: float = 1e-3

    @classmethod
    def fit(
        cls, records: LabelledImages, *, components: int, dtype: torch.dtype, device: torch.device
    ) -> PrincipalComponents:
        """Fit to auxiliary records; at most as many components as there are dimensions."""
        from sklearn.decomposition import PCA

        flat = records.images.reshape(len(records), -1).astype(np.float64)
        count = min(components, flat.shape[1], len(flat) - 1)
        if count < 1:
            raise ConfigurationError(
                f"a PCA prior needs at least two auxiliary records, got {len(flat)}"
            )
        model = PCA(count, svd_solver="full").fit(flat)
        scale = np.sqrt(np.maximum(model.explained_variance_, 1e-12))
        return cls(
            mean=torch.as_tensor(model.mean_, dtype=dtype, device=device),
            basis=torch.as_tensor(model.components_ * scale[:, None], dtype=dtype, device=device),
            shape=records.images.shape[1:],
        )

    def variables(self, images: Tensor) -> Tensor:
        """See :class:`Prior`."""
        # Rows of the basis are orthogonal: the projection divides by their squared lengths.
        centred = images.flatten(1) - self.mean
        return centred @ self.basis.T / self.basis.square().sum(1)

    def images(self, variables: Tensor) -> Tensor:
        """See :class:`Prior`."""
        raw = self.mean + variables @ self.basis
        # Straight through: pixels are in the box, gradients pass as if they were not clamped.
        boxed = raw + (raw.clamp(0, 1) - raw).detach()
        return boxed.reshape(-1, *self.shape)

    def penalty(self, variables: Tensor) -> Tensor:
        """See :class:`Prior`."""
        return self.weight * variables.square().mean(1)

    def project(self, variables: Tensor) -> None:
        """See :class:`Prior`."""


def class_means(records: LabelledImages, classes: int) -> npt.NDArray[np.float32]:
    """Return each class's mean image (classes, ...); that of all records for absent classes."""
    means = np.empty((classes, *records.images.shape[1:]), np.float32)
    for label in range(classes):
        own = records.images[records.labels == label]
        means[label] = (own if len(own) else records.images).mean(0)
    return means
