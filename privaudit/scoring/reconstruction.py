"""How near reconstructed images are to the records that they claim to be.

Every function joins guesses to truth by target id and returns one number a target. An image is
clamped to [0, 1] before it is compared; an image that is not finite scores ``nan``, which
:func:`privaudit.scoring.estimate.estimate` counts as a failed target.

The truth of a target is its array ``"images"`` of shape (records, channels, height, width). A
guess is one image (channels, height, width) or as many images as there are records; several are
paired with the records by :func:`assign`, and the target's score is the mean over its pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from privaudit.attacks.base import Guesses
from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import Array, Truth

__all__ = ["assign", "identification", "mse", "psnr", "ssim"]

Float64 = npt.NDArray[np.float64]

#: Mean squared error below which two images count as equal: 120 dB, beyond float32 images.
_SMALLEST_ERROR = 1e-12

#: Side of the window of a Gaussian of standard deviation 1.5 cut at 3.5 deviations.
_SSIM_WINDOW = 11


def mse(guesses: Guesses, truth: Truth) -> Scores:
    """Score by mean squared error over all values of an image; lower is leakier.

    Raises
    ------
    KeyError
        If the truth does not know a target or its images.
    InvalidDataError
        If a guess has another shape than the records, or another number of images.

    Examples
    --------
    >>> truth = Truth({"user-0": {"images": np.zeros((1, 1, 2, 2), np.float32)}})
    >>> guess = Guesses(("user-0",), (np.full((1, 2, 2), 0.1, np.float32),), np.zeros(1))
    >>> round(mse(guess, truth).per_target["user-0"], 4)
    0.01
    """
    return Scores("MSE", "median", _per_target(guesses, truth, _mse), higher_is_leakier=False)


def psnr(guesses: Guesses, truth: Truth) -> Scores:
    """Score by peak signal-to-noise ratio in dB, for a data range of 1.

    ``10 log10(1 / MSE)`` with the mean over all values of the image, channels included; at most
    120 dB. Errors as :func:`mse`.

    Examples
    --------
    >>> truth = Truth({"user-0": {"images": np.zeros((1, 1, 2, 2), np.float32)}})
    >>> guess = Guesses(("user-0",), (np.full((1, 2, 2), 0.1, np.float32),), np.zeros(1))
    >>> round(psnr(guess, truth).per_target["user-0"], 3)
    20.0
    """

    def score(guess: Float64, record: Float64) -> float:
        return float(-10 * np.log10(max(_mse(guess, record), _SMALLEST_ERROR)))

    return Scores("PSNR (dB)", "median", _per_target(guesses, truth, score))


def ssim(guesses: Guesses, truth: Truth) -> Scores:
    """Score by structural similarity (Wang et al. 2004) of a data range of 1.

    Gaussian weights of standard deviation 1.5 and population covariances, averaged over pixels
    whose window lies within the image; the window is 11 pixels wide, or the largest odd number
    that fits into a smaller image. Errors as :func:`mse`.
    """
    from skimage.metrics import structural_similarity

    def score(guess: Float64, record: Float64) -> float:
        side = min(_SSIM_WINDOW, *record.shape[1:])
        return float(
            structural_similarity(
                guess,
                record,
                win_size=side - 1 + side % 2,
                gaussian_weights=True,
                sigma=1.5,
                use_sample_covariance=False,
                data_range=1.0,
                channel_axis=0,
            )
        )

    return Scores("SSIM", "median", _per_target(guesses, truth, score))


def identification(guesses: Guesses, truth: Truth, *, pool: LabelledImages | None = None) -> Scores:
    """Score 1 if a guess is nearer to its own record than to every other one, else 0.

    The others are the records of all other targets that the truth knows, and the pool. Nearness is
    the Euclidean distance of pixels; a tie counts as 0. With m candidates, chance is 1 / m. For a
    target of several records the score is 1 if every pair's is.

    Raises
    ------
    KeyError, InvalidDataError
        As :func:`mse`; also if the pool's images have another shape.
    """
    owners: list[str] = []
    rows: list[Float64] = []
    for target, arrays in truth.targets.items():
        if "images" in arrays:
            for record in _records(truth, target):
                owners.append(target)
                rows.append(record.ravel())
    extra = np.empty((0, rows[0].size)) if rows else np.empty((0, 0))
    if pool is not None and len(pool):
        extra = pool.images.reshape(len(pool), -1).astype(np.float64)
        if rows and extra.shape[1] != rows[0].size:
            raise InvalidDataError(
                f"the pool's images have {extra.shape[1]} values and the records {rows[0].size}"
            )
    own = np.array(owners)
    matrix = np.stack(rows) if rows else np.empty((0, 0))
    scores: dict[str, float] = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        guess, records = _pair(value, _records(truth, target), target)
        if not np.isfinite(guess).all():
            scores[target] = float("nan")
            continue
        others = np.concatenate([matrix[own != target], extra])
        nearest = [
            float(((others - g.ravel()) ** 2).sum(1).min()) if len(others) else np.inf
            for g in guess
        ]
        hits = [
            float(((g - r) ** 2).sum()) < n for g, r, n in zip(guess, records, nearest, strict=True)
        ]
        scores[target] = float(all(hits))
    return Scores("identification", "proportion", scores)


def assign(guess: Array, records: Array) -> npt.NDArray[np.int64]:
    """Pair images with records so that the total squared distance is least.

    Parameters
    ----------
    guess, records : ndarray, shape (n, ...)

    Returns
    -------
    ndarray of int64, shape (n,)
        ``result[i]`` is the record with which image ``i`` is paired; each record once. Values that
        are not finite are taken as zero for the pairing.

    Raises
    ------
    InvalidDataError
        If the shapes differ.

    Notes
    -----
    A gradient of several records does not tell their order: comparing in naive order understates
    a leak by many dB.
    """
    if guess.shape != records.shape:
        raise InvalidDataError(f"cannot pair images {guess.shape} with records {records.shape}")
    left = np.nan_to_num(guess.reshape(len(guess), -1).astype(np.float64), posinf=0.0, neginf=0.0)
    right = records.reshape(len(records), -1).astype(np.float64)
    cost = ((left[:, None] - right[None]) ** 2).sum(2)
    _, columns = linear_sum_assignment(cost)
    return np.asarray(columns, dtype=np.int64)


def _mse(guess: Float64, record: Float64) -> float:
    return float(np.mean((guess - record) ** 2))


def _records(truth: Truth, target: str) -> Float64:
    return np.asarray(truth.get(target, "images"), dtype=np.float64)


def _pair(value: Array, records: Float64, target: str) -> tuple[Float64, Float64]:
    """Return guess, clamped, and records in paired order, both (n, channels, height, width)."""
    guess = np.asarray(value, dtype=np.float64)
    if guess.ndim == records.ndim - 1:
        guess = guess[None]
    if guess.shape != records.shape:
        raise InvalidDataError(
            f"the guess for '{target}' has shape {np.shape(value)}, its records {records.shape}"
        )
    # An infinite value is a failure; clamping would turn it into a pixel.
    guess = np.where(np.isfinite(guess), np.clip(guess, 0, 1), np.nan)
    return guess, records[assign(guess, records)]


def _per_target(
    guesses: Guesses, truth: Truth, score: Callable[[Float64, Float64], float]
) -> dict[str, float]:
    result: dict[str, float] = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        guess, records = _pair(value, _records(truth, target), target)
        scores = [
            score(g, r) if np.isfinite(g).all() else float("nan")
            for g, r in zip(guess, records, strict=True)
        ]
        result[target] = float(np.mean(scores))
    return result
