"""Reconstruction scores: known values, invariants, and how they fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privaudit.attacks.base import Guesses
from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError
from privaudit.scoring.reconstruction import assign, identification, mse, psnr, ssim
from privaudit.transcript import Truth

pixels = hnp.arrays(
    np.float32, (3, 1, 4, 4), elements=st.floats(0, 1, width=32, allow_subnormal=False)
)


def truth_of(images: np.ndarray) -> Truth:
    return Truth({f"user-{i}": {"images": image[None]} for i, image in enumerate(images)})


def guesses_of(images: np.ndarray) -> Guesses:
    ids = tuple(f"user-{i}" for i in range(len(images)))
    return Guesses(ids, tuple(images), np.zeros(len(images)))


def random_images(count: int, shape: tuple[int, int, int] = (1, 8, 8), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, *shape), dtype=np.float32)


@pytest.mark.parametrize(("error", "decibels"), [(0.1, 20.0), (0.01, 40.0), (1.0, 0.0)])
def test_psnr_of_a_constant_error(error: float, decibels: float) -> None:
    record = np.zeros((1, 3, 5, 5), np.float32)
    scores = psnr(guesses_of(record + np.float32(error)), truth_of(record))
    assert scores.per_target["user-0"] == pytest.approx(decibels, abs=1e-4)


def test_psnr_and_ssim_equal_the_reference_implementation() -> None:
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    record, guess = random_images(1, (1, 28, 28)), random_images(1, (1, 28, 28), seed=1)
    expected = structural_similarity(
        guess[0, 0].astype(float),
        record[0, 0].astype(float),
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        data_range=1.0,
    )
    assert ssim(guesses_of(guess), truth_of(record)).per_target["user-0"] == pytest.approx(expected)
    assert psnr(guesses_of(guess), truth_of(record)).per_target["user-0"] == pytest.approx(
        peak_signal_noise_ratio(record, guess, data_range=1), abs=1e-4
    )


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
def test_a_perfect_guess_has_the_best_score_of_every_kind(shape: tuple[int, int, int]) -> None:
    images = random_images(3, shape)
    guesses, truth = guesses_of(images), truth_of(images)
    assert set(mse(guesses, truth).per_target.values()) == {0.0}
    assert set(psnr(guesses, truth).per_target.values()) == {120.0}
    assert list(ssim(guesses, truth).per_target.values()) == pytest.approx([1.0] * 3)
    assert set(identification(guesses, truth).per_target.values()) == {1.0}


def test_values_outside_the_range_are_clamped_before_comparison() -> None:
    record = np.ones((1, 1, 4, 4), np.float32)
    assert mse(guesses_of(record * 7), truth_of(record)).per_target["user-0"] == 0.0


@pytest.mark.parametrize("score", [mse, psnr, ssim, identification])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_image_that_is_not_finite_is_a_failed_target(score, bad: float) -> None:
    images = random_images(2)
    broken = images.copy()
    broken[0, 0, 3, 3] = bad
    per_target = score(guesses_of(broken), truth_of(images)).per_target
    assert np.isnan(per_target["user-0"])
    assert np.isfinite(per_target["user-1"])


def test_guesses_are_joined_to_truth_by_id_not_by_position() -> None:
    images = random_images(3)
    reverse = Guesses(("user-2", "user-1", "user-0"), tuple(images[::-1]), np.zeros(3))
    assert set(psnr(reverse, truth_of(images)).per_target.values()) == {120.0}


def test_an_unknown_target_and_a_wrong_shape_are_errors() -> None:
    images = random_images(1)
    with pytest.raises(KeyError, match="user-0"):
        psnr(guesses_of(images), Truth())
    with pytest.raises(InvalidDataError, match="user-0"):
        psnr(guesses_of(images[..., :4]), truth_of(images))
    with pytest.raises(InvalidDataError, match="pool"):
        identification(
            guesses_of(images),
            truth_of(images),
            pool=LabelledImages(images[..., :4], np.zeros(1, np.int64)),
        )


def test_identification_counts_other_targets_pool_and_ties_as_misses() -> None:
    images = random_images(3)
    truth = truth_of(images)
    of_another = guesses_of(np.roll(images, 1, axis=0))
    assert set(identification(of_another, truth).per_target.values()) == {0.0}

    twin = LabelledImages(images[:1], np.zeros(1, np.int64))
    with_twin = identification(guesses_of(images), truth, pool=twin).per_target
    assert with_twin == {"user-0": 0.0, "user-1": 1.0, "user-2": 1.0}


def test_one_image_for_all_identifies_at_most_one_target() -> None:
    images = random_images(20)
    same = guesses_of(np.repeat(images.mean(0, keepdims=True), 20, axis=0))
    assert sum(identification(same, truth_of(images)).per_target.values()) <= 1


def test_several_records_are_paired_before_they_are_compared() -> None:
    images = random_images(4)
    truth = Truth({"user-0": {"images": images}})
    order = np.array([2, 0, 3, 1])
    guess = Guesses(("user-0",), (images[order],), np.zeros(1))
    assert assign(images[order], images).tolist() == order.tolist()
    assert psnr(guess, truth).per_target["user-0"] == 120.0


@settings(max_examples=40, deadline=None)
@given(pixels, pixels, st.permutations(range(3)))
def test_assignment_is_a_permutation_of_least_cost(
    guess: np.ndarray, records: np.ndarray, other: list[int]
) -> None:
    found = assign(guess, records)

    def cost(order: np.ndarray | list[int]) -> float:
        return float(((guess.astype(float) - records[order].astype(float)) ** 2).sum())

    assert sorted(found.tolist()) == [0, 1, 2]
    assert cost(found) <= cost(other) + 1e-9


@settings(max_examples=40, deadline=None)
@given(pixels, pixels)
def test_psnr_is_symmetric_bounded_and_falls_with_distance(a: np.ndarray, b: np.ndarray) -> None:
    forward = psnr(guesses_of(a), truth_of(b)).per_target
    backward = psnr(guesses_of(b), truth_of(a)).per_target
    halfway = psnr(guesses_of((a + b) / 2), truth_of(b)).per_target
    for target, value in forward.items():
        assert value == pytest.approx(backward[target])
        assert 0 <= value <= 120
        assert halfway[target] >= value - 1e-6


@settings(max_examples=40, deadline=None)
@given(pixels, pixels)
def test_a_larger_pool_never_identifies_more(guess: np.ndarray, records: np.ndarray) -> None:
    truth = truth_of(records)
    small = identification(guesses_of(guess), truth).per_target
    pool = LabelledImages(random_images(5, (1, 4, 4)), np.zeros(5, np.int64))
    large = identification(guesses_of(guess), truth, pool=pool).per_target
    assert all(large[target] <= small[target] for target in small)
