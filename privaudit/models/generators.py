"""Generators that make images from noise and a label, for data-free distillation.

Importing this module does not import torch; calling its functions does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from privaudit.errors import ConfigurationError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["ImageRange", "build_generator"]

ImageRange = Literal["standardised", "unit"]


def build_generator(
    image_shape: tuple[int, int, int],
    classes: int,
    *,
    noise: int = 100,
    width: int = 64,
    image_range: ImageRange = "standardised",
    seed: int,
) -> nn.Module:
    """Build the conditional generator ``CGeneratorA`` of FedFTG with seeded parameters.

    For 32x32 coloured images it is the published one: noise and one-hot label each go through a
    linear layer to 64 planes of 8x8, then two nearest-neighbour enlargements with 3x3
    convolutions lead to the image. For other sizes the first planes have a quarter of the image's
    height and width, rounded up, and the result is cut to the image.

    Parameters
    ----------
    image_shape : tuple of int
        Channels, height, width.
    classes : int
    noise : int
        Length of the noise vector (DisUE: 100; 256 for a hundred classes).
    width : int
        Planes that noise and label each give.
    image_range : {"standardised", "unit"}
        ``"standardised"``, as published: tanh, then normalisation of each channel over the batch
        without learnt scale. ``"unit"``: a sigmoid, for networks trained on images in [0, 1].
    seed : int
        The global generator of torch is left as it was.

    Returns
    -------
    torch.nn.Module
        Called with noise (batch, noise) and one-hot labels (batch, classes) of one float type,
        gives images (batch, channels, height, width).

    Raises
    ------
    ConfigurationError
        If a size is not positive.

    Examples
    --------
    >>> generator = build_generator((3, 32, 32), 10, seed=0)
    >>> sum(parameter.numel() for parameter in generator.parameters())
    682499
    """
    for name, value in (("noise", noise), ("width", width), ("classes", classes)):
        if value < 1:
            raise ConfigurationError(f"{name} of a generator must be at least 1, got {value}")
    if min(image_shape) < 1:
        raise ConfigurationError(f"a generator makes images of positive size, got {image_shape}")
    import torch

    from privaudit.models._conditional import ConditionalGenerator

    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the generators of the accelerators too.
        torch.default_generator.manual_seed(seed)
        return ConditionalGenerator(image_shape, classes, noise, width, image_range)
