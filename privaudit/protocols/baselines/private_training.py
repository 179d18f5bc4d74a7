"""Local training with differential privacy: DP-SGD through Opacus, and a noised update."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError
from privaudit.models import load_parameters
from privaudit.protocols.training import UpdateKind, local_update

if TYPE_CHECKING:
    from torch import nn

__all__ = ["noised_update", "private_local_update"]


def private_local_update(
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
    clip_norm: float,
    noise_multiplier: float,
) -> npt.NDArray[np.float32]:
    """Train by DP-SGD (Abadi et al., CCS 2016) and return the update, private record by record.

    Each step draws a Poisson sample of the records with probability ``batch_size / n`` (at most
    1), clips each record's gradient to the L2 norm ``clip_norm``, adds Gaussian noise of standard
    deviation ``noise_multiplier * clip_norm`` to their sum, and divides by the expected size of
    the sample. The other parameters are those of
    :func:`privaudit.protocols.training.local_update`.

    Parameters
    ----------
    mode : {"fedavg", "gradient"}
        ``"fedavg"``: ``epochs * ceil(n / batch_size)`` steps. ``"gradient"``: the clipped and
        noised gradient of all records.

    Returns
    -------
    ndarray of float32, shape (d,)

    Raises
    ------
    ConfigurationError
        If there is no record, or the network has a layer that mixes the records of a batch (batch
        normalisation), so that no record has a gradient of its own.
    """
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler
    from opacus.validators import ModuleValidator
    from torch.nn.functional import cross_entropy

    n = len(labels)
    if n == 0:
        raise ConfigurationError("local training needs at least one record, the user has none")
    load_parameters(model, parameters)
    model.train()
    found = ModuleValidator.validate(model, strict=False)
    if found:
        raise ConfigurationError(
            f"this network cannot be trained by DP-SGD: {found[0]}; choose a network without "
            "batch normalisation (privaudit list models)"
        )
    whole = mode == "gradient" or batch_size >= n
    rate = 1.0 if whole else batch_size / n
    steps = 1 if mode == "gradient" else epochs * -(-n // batch_size)
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    with warnings.catch_warnings():
        # Opacus warns that its hooks see full gradients, which is what they are for here.
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        sampled = GradSampleModule(model)
        try:
            optimizer = DPOptimizer(
                torch.optim.SGD(sampled.parameters(), lr=learning_rate),
                noise_multiplier=noise_multiplier,
                max_grad_norm=clip_norm,
                expected_batch_size=n * rate,
                generator=generator,
            )
            for batch in UniformWithReplacementSampler(
                num_samples=n, sample_rate=rate, generator=generator, steps=steps
            ):
                optimizer.zero_grad()
                if batch:
                    cross_entropy(sampled(x[batch]), y[batch]).backward()
                else:
                    # An empty sample is one of the outcomes that the guarantee counts: noise alone.
                    for tensor in sampled.parameters():
                        tensor.grad_sample = torch.zeros((0, *tensor.shape))
                if mode == "gradient":
                    optimizer.pre_step()
                    return np.concatenate(
                        [t.grad.reshape(-1).numpy() for t in sampled.parameters()]
                    )
                optimizer.step()
            after = np.concatenate([t.detach().reshape(-1).numpy() for t in sampled.parameters()])
        finally:
            sampled.to_standard_module()
    with np.errstate(over="ignore", invalid="ignore"):
        update: npt.NDArray[np.float32] = (parameters - after) / np.float32(learning_rate)
    return update


def noised_update(
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
    clip_norm: float,
    noise_multiplier: float,
) -> npt.NDArray[np.float32]:
    """Train as usual, clip the whole update and add Gaussian noise: private for all records.

    The noise has the standard deviation ``noise_multiplier * clip_norm`` on each coordinate, so
    that the update is protected against its observer, the server, whatever the records are. The
    parameters are those of :func:`private_local_update`.
    """
    update = local_update(
        model,
        images,
        labels,
        parameters=parameters,
        learning_rate=learning_rate,
        batch_size=batch_size,
        epochs=epochs,
        mode=mode,
        rng=rng,
    )
    norm = float(np.linalg.norm(update.astype(np.float64)))
    clipped = update * min(1.0, clip_norm / norm) if norm > 0 else update
    noise = rng.normal(scale=noise_multiplier * clip_norm, size=len(update))
    result: npt.NDArray[np.float32] = (clipped + noise).astype(np.float32)
    return result
