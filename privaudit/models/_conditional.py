"""The conditional generator itself; this module imports torch and is imported only to build it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

__all__ = ["ConditionalGenerator"]


class ConditionalGenerator(nn.Module):
    """``CGeneratorA`` of FedFTG (Zhang et al., CVPR 2022); see ``build_generator``."""

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        classes: int,
        noise: int,
        width: int,
        image_range: Literal["standardised", "unit"],
    ) -> None:
        super().__init__()
        channels, self.height, self.columns = image_shape
        self.start = (2 * width, -(-self.height // 4), -(-self.columns // 4))
        planes = width * self.start[1] * self.start[2]
        self.from_noise = nn.Linear(noise, planes)
        self.from_label = nn.Linear(classes, planes)
        self.first = nn.BatchNorm2d(2 * width)
        self.middle = nn.Sequential(
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * width, 2 * width, kernel_size=3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.LeakyReLU(0.2),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(2 * width, width, kernel_size=3, padding=1),
            nn.BatchNorm2d(width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, channels, kernel_size=3, padding=1),
        )
        self.last = (
            nn.Sequential(nn.Tanh(), nn.BatchNorm2d(channels, affine=False))
            if image_range == "standardised"
            else nn.Sigmoid()
        )

    def forward(self, noise: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """Return images (batch, channels, height, width) for noise and one-hot labels."""
        joined = torch.cat([self.from_noise(noise), self.from_label(label)], dim=1)
        planes = self.middle(self.first(joined.view(-1, *self.start)))
        images: torch.Tensor = self.last(planes[:, :, : self.height, : self.columns])
        return images
