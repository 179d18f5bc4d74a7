"""How near reconstructed images are to the records that they claim to be.

Every function joins guesses to truth by target id and returns one number a target, or with
``per_record`` one a record, under the id ``"<target>/record-<i>"``. An image is clamped to [0, 1]
before it is compared; an image that is not finite scores ``nan``, which
:func:`privaudit.scoring.estimate.estimate` counts as a failed target.

The truth of a target is its array ``"images"`` of shape (records, channels, height, width). A
guess is one image (channels, height, width) or several; they are paired with the records so that
the total squared distance is least (:func:`assign`), and the target's score is the mean over its
records. A record for which there is no image, because the adversary believed in fewer records,
scores ``nan``; surplus images are left out.
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

__all__ = ["assign", "identification", "mse", "psnr", "record_id", "score_pairs", "ssim"]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Mean squared error below which two images count as equal: 120 dB, beyond float32 images.
_SMALLEST_ERROR = 1e-12

#: Side of the window of a Gaussian of standard deviation 1.5 cut at 3.5 deviations.
_SSIM_WINDOW = 11


def mse(guesses: Guesses, truth: Truth, *, per_record: bool = False) -> Scores:
    """Score by mean squared error over all values of an image; lower is leakier.

    Raises
    ------
    KeyError
        If the truth does not know a target or its images.
    InvalidDataError
        If a guess has another shape than the records.

    Examples
    --------
    >>> truth = Truth({"user-0": {"images": np.zeros((1, 1, 2, 2), np.float32)}})
    >>> guess = Guesses(("user-0",), (np.full((1, 2, 2), 0.1, np.float32),), np.zeros(1))
    >>> round(mse(guess, truth).per_target["user-0"], 4)
    0.01
    """
    scores = score_pairs(guesses, truth, _mse, per_record=per_record)
    return Scores("MSE", "median", scores, higher_is_leakier=False)


def psnr(guesses: Guesses, truth: Truth, *, per_record: bool = False) -> Scores:
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

    scores = score_pairs(guesses, truth, score, per_record=per_record)
    return Scores("PSNR (dB)", "median", scores)


def ssim(guesses: Guesses, truth: Truth, *, per_record: bool = False) -> Scores:
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

    scores = score_pairs(guesses, truth, score, per_record=per_record)
    return Scores("SSIM", "median", scores)


def identification(
    guesses: Guesses,
    truth: Truth,
    *,
    pool: LabelledImages | None = None,
    per_record: bool = False,
) -> Scores:
    """Score 1 if a guess is nearer to its own record than to every other one, else 0.

    The others are all other records that the truth knows, of the same target too, and the pool.
    Nearness is the Euclidean distance of pixels; a tie counts as 0. With m candidates, chance is
    1 / m. For a target of several records the score is 1 if every record's is.

    Raises
    ------
    KeyError, InvalidDataError
        As :func:`mse`; also if the pool's images have another shape.
    """
    owners: list[tuple[str, int]] = []
    rows: list[Float64] = []
    for target, arrays in truth.targets.items():
        if "images" in arrays:
            for number, record in enumerate(_records(truth, target)):
                owners.append((target, number))
                rows.append(record.ravel())
    extra = np.empty((0, rows[0].size)) if rows else np.empty((0, 0))
    if pool is not None and len(pool):
        extra = pool.images.reshape(len(pool), -1).astype(np.float64)
        if rows and extra.shape[1] != rows[0].size:
            raise InvalidDataError(
                f"the pool's images have {extra.shape[1]} values and the records {rows[0].size}"
            )
    everything = np.concatenate([np.stack(rows), extra]) if rows else extra
    position = {owner: row for row, owner in enumerate(owners)}
    scores: dict[str, float] = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        hits = []
        for number, guess, record in _pairs(value, _records(truth, target), target):
            if guess is None or not np.isfinite(guess).all():
                hits.append(float("nan"))
                continue
            distances = ((everything - guess.ravel()) ** 2).sum(1)
            distances[position[target, number]] = np.inf
            own = float(((guess - record) ** 2).sum())
            hits.append(float(own < distances.min(initial=np.inf)))
        if per_record:
            scores |= {record_id(target, number): hit for number, hit in enumerate(hits)}
        else:
            scores[target] = float(np.min(hits))
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
    _, columns = _least_distance(guess.astype(np.float64), records.astype(np.float64))
    return np.asarray(columns, dtype=np.int64)


def record_id(target: str, number: int) -> str:
    """Return the id of one record of a target, in the order of the truth."""
    return f"{target}/record-{number}"


def score_pairs(
    guesses: Guesses,
    truth: Truth,
    score: Callable[[Float64, Float64], float],
    *,
    per_record: bool,
) -> dict[str, float]:
    """Apply a score to every pair of guess and record, both (channels, height, width).

    Returns one number a target, the mean over its records, or one a record; errors as :func:`mse`.
    """
    result: dict[str, float] = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        scores = [
            float("nan") if guess is None or not np.isfinite(guess).all() else score(guess, record)
            for _, guess, record in _pairs(value, _records(truth, target), target)
        ]
        if per_record:
            result |= {record_id(target, number): one for number, one in enumerate(scores)}
        else:
            result[target] = float(np.mean(scores))
    return result


def _mse(guess: Float64, record: Float64) -> float:
    return float(np.mean((guess - record) ** 2))


def _records(truth: Truth, target: str) -> Float64:
    return np.asarray(truth.get(target, "images"), dtype=np.float64)


def _pairs(
    value: Array, records: Float64, target: str
) -> list[tuple[int, Float64 | None, Float64]]:
    """Return each record's number, the guess paired with it, clamped, and the record."""
    guess = np.asarray(value, dtype=np.float64)
    if guess.ndim == records.ndim - 1:
        guess = guess[None]
    if guess.shape[1:] != records.shape[1:]:
        raise InvalidDataError(
            f"the guess for '{target}' has shape {np.shape(value)}, its records {records.shape}"
        )
    # An infinite value is a failure; clamping would turn it into a pixel.
    guess = np.where(np.isfinite(guess), np.clip(guess, 0, 1), np.nan)
    images, numbers = _least_distance(guess, records)
    paired = dict(zip(numbers.tolist(), images.tolist(), strict=True))
    return [
        (number, guess[paired[number]] if number in paired else None, record)
        for number, record in enumerate(records)
    ]


def _least_distance(guess: Float64, records: Float64) -> tuple[Int64, Int64]:
    """Return positions of images, and of the records paired with them, of least total distance."""
    left = np.nan_to_num(guess.reshape(len(guess), -1), posinf=0.0, neginf=0.0)
    right = records.reshape(len(records), -1)
    cost = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T
    return linear_sum_assignment(cost)  # type: ignore[no-any-return]
