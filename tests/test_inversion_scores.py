"""Scores of updates of several records, LPIPS, and the baselines that stand beside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaudit.attacks.base import Guesses
from privaudit.datasets.base import LabelledImages
from privaudit.errors import InvalidDataError, UnmetRequirementsError
from privaudit.scoring import perceptual as lpips
from privaudit.scoring.prior_images import prior_images
from privaudit.scoring.reconstruction import identification, mse, psnr, ssim
from privaudit.transcript import Truth

RECORDS = np.random.default_rng(7).random((3, 1, 8, 8)).astype(np.float32)
TRUTH = Truth({"user-0": {"images": RECORDS, "labels": np.array([0, 1, 1])}})


def guess_of(images: np.ndarray) -> Guesses:
    return Guesses(("user-0",), (images.astype(np.float32),), np.zeros(1))


def test_every_record_of_an_update_has_a_score_in_the_order_of_the_truth() -> None:
    images = RECORDS[[2, 0, 1]].copy()
    images[0] = np.clip(images[0] + 0.1, 0, 1)  # the guess for record 2
    scores = psnr(guess_of(images), TRUTH, per_record=True).per_target
    assert list(scores) == [f"user-0/record-{i}" for i in range(3)]
    assert scores["user-0/record-0"] == scores["user-0/record-1"] == 120
    assert scores["user-0/record-2"] < 25
    assert psnr(guess_of(images), TRUTH).per_target["user-0"] == pytest.approx(
        np.mean(list(scores.values()))
    )


@pytest.mark.parametrize("score", [mse, psnr, ssim, identification])
def test_a_record_that_was_not_guessed_is_a_failure(score) -> None:
    scores = score(guess_of(RECORDS[[2, 0]]), TRUTH, per_record=True).per_target
    assert np.isnan(scores["user-0/record-1"])
    assert np.isfinite([scores["user-0/record-0"], scores["user-0/record-2"]]).all()
    assert np.isnan(score(guess_of(RECORDS[:2]), TRUTH).per_target["user-0"])


def test_images_beyond_the_number_of_records_are_left_out() -> None:
    more = np.concatenate([np.zeros((2, 1, 8, 8)), RECORDS])
    assert psnr(guess_of(more), TRUTH).per_target == {"user-0": 120.0}


def test_a_guess_nearer_to_a_sibling_record_does_not_identify() -> None:
    twins = np.stack([RECORDS[0], RECORDS[0] + 0.001, RECORDS[1]]).astype(np.float32)
    truth = Truth({"user-0": {"images": twins}})
    same = guess_of(np.stack([RECORDS[0], RECORDS[0], RECORDS[1]]))
    scores = identification(same, truth, per_record=True).per_target
    assert sorted(scores.values()) == [0.0, 1.0, 1.0]


@given(st.permutations(range(3)))
def test_scores_do_not_depend_on_the_order_of_guesses(order: list[int]) -> None:
    blurred = 0.8 * RECORDS + 0.1
    expected = psnr(guess_of(blurred), TRUTH, per_record=True).per_target
    found = psnr(guess_of(blurred[order]), TRUTH, per_record=True).per_target
    assert found == pytest.approx(expected)


def test_baselines_are_means_and_the_nearest_auxiliary_image() -> None:
    images = np.stack([np.full((1, 8, 8), level, np.float32) for level in (0.0, 0.2, 1.0)])
    auxiliary = LabelledImages(images, np.array([0, 0, 1]))
    made = prior_images(("user-0",), TRUTH, auxiliary)
    assert list(made) == ["mean image", "class mean", "nearest auxiliary image"]
    assert {round(float(v), 6) for v in np.unique(made["mean image"].values[0])} == {0.4}
    assert made["class mean"].values[0][:, 0, 0, 0] == pytest.approx([0.1, 1.0, 1.0])
    nearest = made["nearest auxiliary image"].values[0]
    for record, image in zip(RECORDS, nearest, strict=True):
        distances = ((auxiliary.images - record) ** 2).sum((1, 2, 3))
        assert ((image - record) ** 2).sum() == pytest.approx(distances.min())


def test_baselines_need_fitting_auxiliary_records() -> None:
    with pytest.raises(InvalidDataError, match="none"):
        prior_images(("user-0",), TRUTH, LabelledImages(RECORDS[:0], np.zeros(0, np.int64)))
    small = LabelledImages(RECORDS[..., :4], np.zeros(3, np.int64))
    with pytest.raises(InvalidDataError, match="'user-0'"):
        prior_images(("user-0",), TRUTH, small)


def test_lpips_says_what_is_missing_and_downloads_nothing(monkeypatch, tmp_path) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(lpips, "find_spec", lambda name: None)
    with pytest.raises(UnmetRequirementsError, match="torchmetrics"):
        lpips.perceptual(guess_of(RECORDS), TRUTH)
    monkeypatch.setattr(lpips, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(UnmetRequirementsError, match="nothing is downloaded"):
        lpips.perceptual(guess_of(RECORDS), TRUTH)


def test_lpips_of_equal_images_is_zero_where_its_weights_are_here() -> None:
    if (reason := lpips.why_not_available()) is not None:
        pytest.skip(reason)
    equal = lpips.perceptual(guess_of(RECORDS), TRUTH).per_target["user-0"]
    noisy = lpips.perceptual(guess_of(1 - RECORDS), TRUTH).per_target["user-0"]
    assert equal == pytest.approx(0, abs=1e-6)
    assert noisy > 0.05
