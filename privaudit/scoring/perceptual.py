"""LPIPS: how far apart two images are to a network trained on human judgements.

It needs torchmetrics, which brings the weights of LPIPS, and torchvision's AlexNet, whose weights
must lie in torch's cache already: nothing is ever downloaded.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import UnmetRequirementsError
from privaudit.scoring.estimate import Scores
from privaudit.scoring.reconstruction import score_pairs
from privaudit.transcript import Truth

__all__ = ["perceptual", "why_not_available"]

#: AlexNet's convolutions and poolings need 63 pixels; smaller images are enlarged to this.
_SIDE = 64


def why_not_available() -> str | None:
    """Return why LPIPS cannot be computed here, or None if it can."""
    if find_spec("torchmetrics") is None:
        return "LPIPS needs torchmetrics: pip install torchmetrics"
    weights = _weights()
    if not weights.is_file():
        return (
            f"LPIPS needs AlexNet's weights at {weights}, and nothing is downloaded here; fetch "
            f"'{weights.name}' from torchvision's model zoo on a machine with network access"
        )
    return None


def _weights() -> Path:
    import torch
    from torchvision.models import AlexNet_Weights

    name = str(AlexNet_Weights.DEFAULT.url).rsplit("/", 1)[-1]
    return Path(torch.hub.get_dir()) / "checkpoints" / name


def perceptual(guesses: Guesses, truth: Truth, *, per_record: bool = False) -> Scores:
    """Score by LPIPS (Zhang et al. 2018) with AlexNet; lower is leakier.

    Grey images are repeated over three channels, and images below 64 pixels enlarged bilinearly
    to it, so that numbers for small images compare with each other only. Pairing and errors as
    :func:`privaudit.scoring.reconstruction.mse`.

    Raises
    ------
    UnmetRequirementsError
        If :func:`why_not_available` has a reason.
    """
    if (reason := why_not_available()) is not None:
        raise UnmetRequirementsError(reason)
    import torch
    from torch import Tensor
    from torchmetrics.functional.image.lpips import learned_perceptual_image_patch_similarity

    def prepared(image: npt.NDArray[np.float64]) -> Tensor:
        pixels = torch.from_numpy(image).float()[None]
        pixels = pixels[:, :3] if len(image) >= 3 else pixels[:, :1].repeat(1, 3, 1, 1)
        size = [max(_SIDE, extent) for extent in image.shape[1:]]
        return torch.nn.functional.interpolate(pixels, size, mode="bilinear")

    def score(guess: npt.NDArray[np.float64], record: npt.NDArray[np.float64]) -> float:
        with torch.no_grad():
            return float(
                learned_perceptual_image_patch_similarity(
                    prepared(guess), prepared(record), net_type="alex", normalize=True
                )
            )

    scores = score_pairs(guesses, truth, score, per_record=per_record)
    return Scores("LPIPS", "median", scores, higher_is_leakier=False)
