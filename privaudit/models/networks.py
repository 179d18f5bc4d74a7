"""The networks themselves; this module imports torch and is imported only to build one.

Every network ends in one linear layer whose weight and bias are its last two parameters; the
functions of :mod:`privaudit.models.catalogue` rely on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import nn

from privaudit.errors import ConfigurationError

__all__ = ["NETWORKS"]

Shape = tuple[int, int, int]


def _cnn(shape: Shape, classes: int) -> nn.Module:
    """Two 5x5 convolutions, two linear layers: the CNN of PA-CFL (section 7.1)."""
    channels, height, width = shape
    # Each 5x5 convolution takes four rows off, each pooling halves what is left.
    rows, columns = (((extent - 4) // 2 - 4) // 2 for extent in (height, width))
    if min(rows, columns) < 1:
        raise ConfigurationError(
            f"model 'cnn' needs images of at least 16x16, got {height}x{width}; "
            "use 'small-cnn' for smaller ones"
        )
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(channels, 32, kernel_size=5),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(32, 64, kernel_size=5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * rows * columns, 512),
            relu3=nn.ReLU(),
            fc2=nn.Linear(512, classes),
        )
    )


def _small_cnn(shape: Shape, classes: int) -> nn.Module:
    """Two padded 3x3 convolutions, two linear layers, for images of 4x4 and more."""
    channels, height, width = shape
    rows, columns = height // 4, width // 4
    if min(rows, columns) < 1:
        raise ConfigurationError(
            f"model 'small-cnn' needs images of at least 4x4, got {height}x{width}; use 'mlp'"
        )
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(channels, 16, kernel_size=3, padding=1),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(16, 32, kernel_size=3, padding=1),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(32 * rows * columns, 64),
            relu3=nn.ReLU(),
            fc2=nn.Linear(64, classes),
        )
    )


def _mlp(shape: Shape, classes: int) -> nn.Module:
    """One hidden layer of 64 rectified units."""
    channels, height, width = shape
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            flatten=nn.Flatten(),
            fc1=nn.Linear(channels * height * width, 64),
            relu1=nn.ReLU(),
            fc2=nn.Linear(64, classes),
        )
    )


def _lenet(shape: Shape, classes: int) -> nn.Module:
    """Three sigmoid convolutions of 12 channels and one linear layer: the network of DLG."""
    channels, height, width = shape
    # With padding 2 only the two strides of 2 shrink the image; each halves it, rounding up.
    rows, columns = ((extent + 3) // 4 for extent in (height, width))
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(channels, 12, kernel_size=5, padding=2, stride=2),
            sigmoid1=nn.Sigmoid(),
            conv2=nn.Conv2d(12, 12, kernel_size=5, padding=2, stride=2),
            sigmoid2=nn.Sigmoid(),
            conv3=nn.Conv2d(12, 12, kernel_size=5, padding=2, stride=1),
            sigmoid3=nn.Sigmoid(),
            flatten=nn.Flatten(),
            fc=nn.Linear(12 * rows * columns, classes),
        )
    )


def _resnet(blocks: int, shape: Shape, classes: int) -> nn.Module:
    """Four residual stages of basic blocks, with batch normalisation and torchvision's stem."""
    from torchvision.models.resnet import BasicBlock, ResNet

    network = ResNet(BasicBlock, [blocks] * 4, num_classes=classes)
    channels = shape[0]
    if channels != 3:
        stem = nn.Conv2d(channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
        network.conv1 = stem
    assert isinstance(network, nn.Module)
    return network


def _resnet10(shape: Shape, classes: int) -> nn.Module:
    """One basic block a stage: the ResNet-10 of PA-CFL.

    With torchvision's stem (7x7, stride 2, then pooling) it has the 4,910,922 parameters that
    table 1 of PA-CFL states for CIFAR-10; with a 3x3 stem it would have 7,680 fewer.
    """
    return _resnet(1, shape, classes)


def _resnet18(shape: Shape, classes: int) -> nn.Module:
    """Two basic blocks a stage: the ResNet-18 of He et al. (CVPR 2016) as torchvision builds it."""
    return _resnet(2, shape, classes)


#: How to make each network: a function of input shape (channels, height, width) and classes.
NETWORKS: Mapping[str, Callable[[Shape, int], nn.Module]] = MappingProxyType(
    {
        "cnn": _cnn,
        "small-cnn": _small_cnn,
        "resnet10": _resnet10,
        "resnet18": _resnet18,
        "mlp": _mlp,
        "lenet": _lenet,
    }
)


def make(name: str, shape: Shape, classes: int, *, seed: int | None) -> nn.Module:
    """Build a network; with ``seed=None`` on the meta device, which holds shapes and no values.

    Neither way changes the state of torch's global generator.
    """
    if seed is None:
        with torch.device("meta"):
            return NETWORKS[name](shape, classes)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the generators of the accelerators too.
        torch.default_generator.manual_seed(seed)
        return NETWORKS[name](shape, classes)
