"""What a dummy image is made of and where it starts, from declared knowledge only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError

__all__ = [
    "LatentGaussian",
    "Pixels",
    "Prior",
    "class_gaussian",
    "class_means",
    "fills_its_space",
    "principal_components",
]

#: Least variance along an axis of a prior, so that pixels which never vary stay invertible.
_SMALLEST = 1e-6

_NEGLIGIBLE = 1e-8


class Prior(Protocol):
    """Images as a function of the variables that are optimised."""

    def of(self, jobs: slice | Tensor) -> Prior:
        """Return the prior of some of the jobs."""
        ...

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

    def of(self, jobs: slice | Tensor) -> Prior:
        """See :class:`Prior`."""
        return self

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
class LatentGaussian:
    """Images ``x = mean + z @ basis`` with ``weight`` times the mean of ``z**2`` added to the loss.

    Attributes
    ----------
    mean : Tensor, shape (jobs or 1, pixels)
    basis : Tensor, shape (components, pixels)
        Orthogonal rows, each as long as the standard deviation along it.
    shape : tuple of int
        Channels, height and width.
    weight : float
    """

    mean: Tensor
    basis: Tensor
    shape: tuple[int, ...]
    weight: float

    def of(self, jobs: slice | Tensor) -> Prior:
        """See :class:`Prior`."""
        return self if len(self.mean) == 1 else replace(self, mean=self.mean[jobs])

    def variables(self, images: Tensor) -> Tensor:
        """See :class:`Prior`."""
        # Rows of the basis are orthogonal: the projection divides by their squared lengths.
        return (images.flatten(1) - self.mean) @ self.basis.T / self.basis.square().sum(1)

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


def principal_components(
    records: LabelledImages, *, components: int, weight: float, like: Tensor
) -> LatentGaussian:
    """Fit the leading principal components of all records, whatever their class.

    ``like`` gives type and device. At most as many components as there are dimensions.
    """
    from sklearn.decomposition import PCA

    flat = _flat(records)
    count = min(components, flat.shape[1], len(flat) - 1)
    model = PCA(count, svd_solver="full").fit(flat)
    basis = model.components_ * np.sqrt(np.maximum(model.explained_variance_, _SMALLEST))[:, None]
    return LatentGaussian(
        mean=torch.as_tensor(model.mean_[None], dtype=like.dtype, device=like.device),
        basis=torch.as_tensor(basis, dtype=like.dtype, device=like.device),
        shape=records.images.shape[1:],
        weight=weight,
    )


def class_gaussian(
    records: LabelledImages,
    labels: npt.NDArray[np.int64],
    *,
    classes: int,
    weight: float,
    like: Tensor,
) -> LatentGaussian:
    """Fit a Gaussian around each class's mean image, with one covariance for all classes.

    The covariance is that of the records about their class means, shrunk as Ledoit and Wolf
    (2004) do, so that it has full rank and excludes no image.

    Parameters
    ----------
    labels : ndarray of int64, shape (jobs,)
        The class whose mean each job's prior is centred on.
    """
    from sklearn.covariance import LedoitWolf

    means = class_means(records, classes).reshape(classes, -1).astype(np.float64)
    residual = _flat(records) - means[records.labels]
    covariance = LedoitWolf(assume_centered=True).fit(residual).covariance_
    variance, axes = np.linalg.eigh(covariance)
    basis = axes.T * np.sqrt(np.maximum(variance, _SMALLEST))[:, None]
    return LatentGaussian(
        mean=torch.as_tensor(means[labels], dtype=like.dtype, device=like.device),
        basis=torch.as_tensor(basis, dtype=like.dtype, device=like.device),
        shape=records.images.shape[1:],
        weight=weight,
    )


def fills_its_space(records: LabelledImages, classes: int) -> bool:
    """Say whether the records, about their class means, span at least half of what they could.

    Enlarged digits do not: a prior fitted to them knows the few dimensions in which all images of
    the source lie, and would rebuild much of an image from no message at all.
    """
    means = class_means(records, classes).reshape(classes, -1).astype(np.float64)
    residual = _flat(records) - means[records.labels]
    variance = np.linalg.eigvalsh(residual.T @ residual)
    # Relative deviations of 1e-4 are far above the rounding of float32 pixels, far below a pixel.
    rank = int((variance > _NEGLIGIBLE * variance[-1]).sum())
    return bool(2 * rank >= min(residual.shape[1], len(records) - len(np.unique(records.labels))))


def class_means(records: LabelledImages, classes: int) -> npt.NDArray[np.float32]:
    """Return each class's mean image (classes, ...); that of all records for absent classes."""
    means = np.empty((classes, *records.images.shape[1:]), np.float32)
    for label in range(classes):
        own = records.images[records.labels == label]
        means[label] = (own if len(own) else records.images).mean(0)
    return means


def _flat(records: LabelledImages) -> npt.NDArray[np.float64]:
    if len(records) < 2:
        raise ConfigurationError(
            f"a prior needs at least two auxiliary records, got {len(records)}"
        )
    return records.images.reshape(len(records), -1).astype(np.float64)
