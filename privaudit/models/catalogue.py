"""Which networks there are, how large they are, and how to build one.

Importing this module does not import torch; calling its functions does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.models.spec import ModelSpec

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "MODELS",
    "SUMMARIES",
    "ClassifierRows",
    "build",
    "classifier_rows",
    "default_model",
    "has_batch_norm",
    "parameter_count",
]

#: One line on each network that :func:`build` knows, by name.
SUMMARIES: Mapping[str, str] = {
    "cnn": "PA-CFL's CNN for MNIST: two 5x5 convolutions, two linear layers; 582,026 parameters.",
    "small-cnn": "Two 3x3 convolutions and two linear layers: the default for the 8x8 digits.",
    "resnet10": "PA-CFL's ResNet-10 for CIFAR-10: four stages; 4,910,922 parameters.",
    "resnet18": "The ResNet-18 of torchvision, DisUE's classifier; 11,181,642 parameters.",
    "mlp": "Two linear layers.",
    "lenet": "The sigmoid LeNet on which Deep Leakage from Gradients was shown.",
}
#: Their names.
MODELS: tuple[str, ...] = tuple(SUMMARIES)

_LARGEST_SEED = 2**63 - 1


class ClassifierRows(NamedTuple):
    """Where the last linear layer lies in the flat parameter vector.

    Attributes
    ----------
    weight_offset : int
        Position of the first weight; weights are row-major, one row of ``features`` a class.
    bias_offset : int
        Position of the first bias, one a class.
    features : int
        Inputs of the layer: the length of a row.
    """

    weight_offset: int
    bias_offset: int
    features: int


def build(spec: ModelSpec, *, seed: int) -> nn.Module:
    """Build a network with seeded initial parameters, on the CPU, in training mode.

    The initialisation is that of torch (torchvision for ``resnet10`` and ``resnet18``). The global
    generator of torch is left as it was; the same spec and seed give the same bytes.

    Parameters
    ----------
    spec : ModelSpec
    seed : int
        From 0 to 2**63 - 1.

    Returns
    -------
    torch.nn.Module
        Takes float32 of shape (batch, channels, height, width); gives logits (batch, classes).

    Raises
    ------
    ConfigurationError
        If the name is unknown, the input is too small for the network, there are fewer than two
        classes, or the seed is out of range.

    Notes
    -----
    ``resnet10`` and ``resnet18`` have batch normalisation. In training mode a batch of one 32x32
    image is refused by torch, because their last stage is 1x1 and has no variance; use ``eval()``
    for such batches.
    """
    if not 0 <= seed <= _LARGEST_SEED:
        raise ConfigurationError(f"seed must be from 0 to 2**63 - 1, got {seed}")
    _check(spec)
    from privaudit.models.networks import make

    return make(spec.name, spec.input_shape, spec.classes, seed=seed)


def parameter_count(spec: ModelSpec) -> int:
    """Return the number of trainable parameters (buffers of batch normalisation are none).

    Examples
    --------
    >>> parameter_count(ModelSpec("cnn", (1, 28, 28), 10))
    582026
    """
    return _layout(spec).parameters


def has_batch_norm(spec: ModelSpec) -> bool:
    """Say whether the network normalises over the batch, hence mixes the records of a batch."""
    return _layout(spec).batch_norm


def classifier_rows(spec: ModelSpec) -> ClassifierRows:
    """Return where the last linear layer lies in the vector of :func:`flatten_parameters`.

    Examples
    --------
    >>> classifier_rows(ModelSpec("cnn", (1, 28, 28), 10))
    ClassifierRows(weight_offset=576896, bias_offset=582016, features=512)
    """
    return _layout(spec).rows


def default_model(image_shape: tuple[int, int, int], classes: int) -> ModelSpec:
    """Return the network that suits images of a shape.

    ``small-cnn`` for images that are smaller than 16 in height or width, ``cnn`` for other grey
    ones (the paper's choice for 28x28), ``resnet10`` for other coloured ones (the paper's for
    32x32).

    Examples
    --------
    >>> default_model((1, 8, 8), 10).name
    'small-cnn'
    """
    channels, height, width = image_shape
    if min(height, width) < 16:
        return ModelSpec("small-cnn", image_shape, classes)
    return ModelSpec("cnn" if channels == 1 else "resnet10", image_shape, classes)


class _Layout(NamedTuple):
    parameters: int
    batch_norm: bool
    rows: ClassifierRows


@lru_cache(maxsize=64)
def _layout(spec: ModelSpec) -> _Layout:
    _check(spec)
    from torch import nn

    from privaudit.models.networks import make

    network = make(spec.name, spec.input_shape, spec.classes, seed=None)
    count = sum(parameter.numel() for parameter in network.parameters())
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    bias_offset = count - last.out_features
    rows = ClassifierRows(bias_offset - last.weight.numel(), bias_offset, last.in_features)
    batch_norm = any(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    return _Layout(count, batch_norm, rows)


def _check(spec: ModelSpec) -> None:
    if spec.name not in MODELS:
        raise ConfigurationError(
            f"unknown model '{spec.name}'; models are {', '.join(MODELS)}."
            f"{did_you_mean(spec.name, MODELS)}"
        )
    if len(spec.input_shape) != 3 or min(spec.input_shape) < 1:
        raise ConfigurationError(
            f"model '{spec.name}': input_shape must be (channels, height, width), each at least 1, "
            f"got {spec.input_shape}"
        )
    if spec.classes < 2:
        raise ConfigurationError(
            f"model '{spec.name}': classes must be at least 2, got {spec.classes}"
        )
