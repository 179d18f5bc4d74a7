"""Local training of one user, the building block that every protocol and simulation shares.

torch is imported when a function is called, not when this module is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError
from privaudit.models import load_parameters

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["LocalTraining", "UpdateKind", "accuracy", "local_update"]

UpdateKind = Literal["fedavg", "gradient"]


class LocalTraining(Protocol):
    """How one user computes its update; see :func:`local_update`."""

    def __call__(
        self,
        model: nn.Module,
        images: npt.NDArray[np.float32],
        labels: npt.NDArray[np.int64],
        *,
        parameters: npt.NDArray[np.float32],
        learning_rate: float,
        batch_size: int,
        epochs: int,
        mode: UpdateKind,
        rng: np.random.Generator,
    ) -> npt.NDArray[np.float32]:
        """Train on one user's records and return the update."""
        ...


def _require_batches_of_one(model: nn.Module, image: Tensor) -> None:
    """Refuse a network that cannot train on one record, as batch normalisation may not.

    Raises
    ------
    ConfigurationError
        If it cannot.
    """
    import torch

    if next(model.buffers(), None) is None:
        # Batch normalisation keeps statistics: without them there is nothing to try.
        return
    kept = {name: value.clone() for name, value in model.named_buffers()}
    try:
        with torch.no_grad():
            model(image)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ConfigurationError(
            "the network's batch normalisation cannot train on a batch of one record of this "
            "size, because a layer leaves one value a channel; give each user more records (no "
            "batch of one left over), or take a network without it"
        ) from error
    finally:
        for name, value in model.named_buffers():
            value.copy_(kept[name])


def local_update(
    model: nn.Module,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    *,
    parameters: npt.NDArray[np.float32],
    learning_rate: float,
    batch_size: int,
    epochs: int,
    mode: UpdateKind,
    rng: np.random.Generator,
    weight_decay: float = 0.0,
    clip_norm: float | None = None,
) -> npt.NDArray[np.float32]:
    """Train on one user's records and return the update that it computes.

    Parameters
    ----------
    model : torch.nn.Module
        A network whose parameters are overwritten.
    images : ndarray of float32, shape (n, channels, height, width)
    labels : ndarray of int64, shape (n,)
    parameters : ndarray of float32, shape (d,)
        Where training starts.
    mode : {"fedavg", "gradient"}
        ``"fedavg"``: ``(before - after) / learning_rate`` over ``epochs`` of mini-batch SGD
        (PA-CFL, section 7). ``"gradient"``: one gradient of the mean cross entropy over all
        records (PA-CFL, section 5.2).
    rng : numpy.random.Generator
        Draws the order of the records in each epoch.
    weight_decay : float
        L2 penalty, added to each gradient of ``"fedavg"`` after clipping.
    clip_norm : float, optional
        Largest L2 norm of a mini-batch's gradient in ``"fedavg"``; longer ones are scaled to it.

    Returns
    -------
    ndarray of float32, shape (d,)
        It may hold non-finite values if training diverged; callers decide what that means.

    Raises
    ------
    ConfigurationError
        If there is no record.
    """
    import torch
    from torch.nn.functional import cross_entropy

    if len(labels) == 0:
        raise ConfigurationError("local training needs at least one record, the user has none")
    load_parameters(model, parameters)
    model.train()
    tensors = list(model.parameters())
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    if len(y) == 1 or (mode == "fedavg" and len(y) % batch_size == 1):
        _require_batches_of_one(model, x[:1])
    if mode == "gradient":
        gradients = torch.autograd.grad(cross_entropy(model(x), y), tensors)
        return np.concatenate([g.reshape(-1).numpy() for g in gradients])
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(y)))
        for batch in order.split(batch_size):
            gradients = torch.autograd.grad(cross_entropy(model(x[batch]), y[batch]), tensors)
            with torch.no_grad():
                if clip_norm is not None:
                    norm = torch.linalg.vector_norm(
                        torch.stack([torch.linalg.vector_norm(g) for g in gradients])
                    )
                    if norm > clip_norm:
                        gradients = tuple(g * (clip_norm / norm) for g in gradients)
                if weight_decay:
                    gradients = tuple(
                        g.add(t, alpha=weight_decay)
                        for g, t in zip(gradients, tensors, strict=True)
                    )
                for tensor, gradient in zip(tensors, gradients, strict=True):
                    tensor.sub_(gradient, alpha=learning_rate)
    after = np.concatenate([t.detach().reshape(-1).numpy() for t in tensors])
    with np.errstate(over="ignore", invalid="ignore"):
        update: npt.NDArray[np.float32] = (parameters - after) / np.float32(learning_rate)
    return update


def accuracy(
    model: nn.Module,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    *,
    parameters: npt.NDArray[np.float32],
    calibration: npt.NDArray[np.float32],
) -> float:
    """Return the fraction of records that the network with these parameters classifies rightly.

    Only parameters travel in the protocols. For a network with batch normalisation the running
    statistics are estimated anew from ``calibration``, records that the user holds.
    """
    import torch
    from torch import nn

    load_parameters(model, parameters)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        if norms:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None
            model.train()
            for batch in torch.from_numpy(calibration).split(256):
                model(batch)
        model.eval()
        guesses = [model(b).argmax(1).numpy() for b in torch.from_numpy(images).split(1024)]
    return float(np.mean(np.concatenate(guesses) == labels))
