"""Images that need no message, as baselines to print beside reconstructions.

They are made with the truth, hence are no attacks: two of them know of each record more than an
adversary without a message could, and say how much of a figure a good guess explains.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError
from privaudit.transcript import Truth

__all__ = ["prior_images"]

Float32 = npt.NDArray[np.float32]


def prior_images(
    targets: tuple[str, ...], truth: Truth, auxiliary: LabelledImages
) -> dict[str, Guesses]:
    """Return three baselines for the same targets, by name.

    ``"mean image"``: the mean auxiliary image. ``"class mean"``: the mean auxiliary image of each
    record's true class (that of all where the class is absent). ``"nearest auxiliary image"``: of
    all auxiliary images the one nearest to the record, which no retrieval can beat in MSE.

    Parameters
    ----------
    targets : tuple of str
    truth : Truth
        With ``"images"`` (records, ...) and ``"labels"`` (records,) of each target.
    auxiliary : LabelledImages
        Records of the same source, disjoint from the targets'.

    Raises
    ------
    KeyError
        If the truth does not know a target, its images or labels.
    InvalidDataError
        If there is no auxiliary record, or its shape is another.
    """
    if len(auxiliary) == 0:
        raise InvalidDataError("baselines of images need auxiliary records, got none")
    mean = auxiliary.images.mean(0, dtype=np.float64).astype(np.float32)
    flat = auxiliary.images.reshape(len(auxiliary), -1).astype(np.float64)
    squared = (flat**2).sum(1)
    made: dict[str, list[Float32]] = {
        "mean image": [],
        "class mean": [],
        "nearest auxiliary image": [],
    }
    for target in targets:
        images = np.asarray(truth.get(target, "images"), np.float64)
        if images.shape[1:] != auxiliary.images.shape[1:]:
            raise InvalidDataError(
                f"auxiliary images have shape {auxiliary.images.shape[1:]} and those of "
                f"'{target}' {images.shape[1:]}"
            )
        labels = np.atleast_1d(truth.get(target, "labels"))
        own = [auxiliary.images[auxiliary.labels == label] for label in labels]
        distances = squared - 2 * images.reshape(len(images), -1) @ flat.T
        made["mean image"].append(np.repeat(mean[None], len(images), axis=0))
        made["class mean"].append(
            np.stack([members.mean(0) if len(members) else mean for members in own])
        )
        made["nearest auxiliary image"].append(auxiliary.images[distances.argmin(1)])
    return {
        name: Guesses(targets, tuple(values), np.zeros(len(targets)))
        for name, values in made.items()
    }
