"""A learned prior: the range of a small autoencoder, trained on auxiliary data in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privaudit.attacks.inversion._priors import Prior
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError

__all__ = ["LearnedDecoder", "train_decoder"]

_HIDDEN = 256
_BATCH = 128
_STEPS = 600
_LEARNING_RATE = 2e-3


@dataclass(frozen=True, slots=True, eq=False)
class LearnedDecoder:
    """Images ``decoder(z)`` with ``weight`` times the mean of ``z**2`` added to the loss.

    The encoder only serves to begin the search near given images. Latent variables of the
    auxiliary records have mean zero and variance one.

    Attributes
    ----------
    encoder, decoder : Module
        Vectors of pixels to latent variables and back.
    shape : tuple of int
        Channels, height and width.
    weight : float
    """

    encoder: nn.Module
    decoder: nn.Module
    shape: tuple[int, ...]
    weight: float

    def of(self, jobs: slice | Tensor) -> Prior:
        """See :class:`Prior`."""
        return self

    def variables(self, images: Tensor) -> Tensor:
        """See :class:`Prior`."""
        with torch.no_grad():
            encoded: Tensor = self.encoder(images.flatten(1))
        return encoded

    def images(self, variables: Tensor) -> Tensor:
        """See :class:`Prior`."""
        pixels: Tensor = self.decoder(variables)
        return pixels.reshape(-1, *self.shape)

    def penalty(self, variables: Tensor) -> Tensor:
        """See :class:`Prior`."""
        return self.weight * variables.square().mean(1)

    def project(self, variables: Tensor) -> None:
        """See :class:`Prior`."""


def train_decoder(
    records: LabelledImages, *, latent: int, weight: float, like: Tensor, seed: int = 0
) -> LearnedDecoder:
    """Train an autoencoder of two hidden layers of 256 units by squared error, 600 steps of Adam.

    The global generator of torch is left as it was; ``like`` gives type and device.

    Raises
    ------
    ConfigurationError
        With fewer than two records.
    """
    if len(records) < 2:
        raise ConfigurationError(
            f"a prior needs at least two auxiliary records, got {len(records)}"
        )
    pixels = torch.as_tensor(records.images.reshape(len(records), -1), dtype=torch.float32)
    width = pixels.shape[1]
    latent = min(latent, width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = nn.Sequential(
            nn.Linear(width, _HIDDEN),
            nn.GELU(),
            nn.Linear(_HIDDEN, latent),
            nn.BatchNorm1d(latent, affine=False),
        )
        decoder = nn.Sequential(
            nn.Linear(latent, _HIDDEN), nn.GELU(), nn.Linear(_HIDDEN, width), nn.Sigmoid()
        )
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=_LEARNING_RATE)
        generator = torch.Generator().manual_seed(seed)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _STEPS)
        for _ in range(_STEPS):
            batch = pixels[torch.randint(len(pixels), (_BATCH,), generator=generator)]
            loss = (decoder(encoder(batch)) - batch).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        with torch.no_grad():
            # The statistics of all records, not of the last few batches.
            encoder.train()
            for module in encoder.modules():
                if isinstance(module, nn.BatchNorm1d):
                    module.momentum = 1.0
            encoder(pixels)
    return LearnedDecoder(
        encoder.eval().requires_grad_(False).to(like.device, like.dtype),
        decoder.eval().requires_grad_(False).to(like.device, like.dtype),
        records.images.shape[1:],
        weight,
    )
