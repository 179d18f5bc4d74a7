"""The prior that attacks on parts of a gradient choose by attacking auxiliary records first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from inversion_runs import PAPER, median, view_of, world

from privaudit.attacks.base import Knowledge
from privaudit.attacks.inversion import RankProfileMatching, TopKMatching, _search
from privaudit.attacks.inversion import _calibration as calibration
from privaudit.errors import ConfigurationError
from privaudit.protocols.baselines.kinds import SERVER
from privaudit.protocols.pa_cfl.kinds import MANAGEMENT_SERVER

FAST = {"iterations": 20, "calibration": 4}


def run(attack, view, knowledge, seed=0):
    return attack.run(view, knowledge=knowledge, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("attack", "member"),
    [
        (TopKMatching(source="update", refinements=0, **FAST), SERVER),
        (RankProfileMatching(refinements=0, **FAST), MANAGEMENT_SERVER),
    ],
)
def test_what_was_chosen_is_told_and_is_what_the_attack_then_does(attack, member):
    w = world(211, 6)
    view = view_of(w.transcript(0.05), member)
    guesses = run(attack, view, w.knowledge)
    told = guesses.diagnostics
    reached = {k: v for k, v in told.items() if k.startswith("PSNR on auxiliary records")}
    assert told["calibrated"] == 1
    assert len(reached) == 5
    best = max(reached, key=reached.__getitem__)
    prior = "gaussian" if told["chosen prior is fitted"] else "none"
    assert best.endswith(f"{prior}, variation {told['chosen variation']:g}")
    weight = "prior_variation" if prior == "gaussian" else "total_variation"
    # The attack with that prior and weight by name, from the same starts, gives the same images.
    named = replace(attack, prior=prior, calibration=0, **{weight: told["chosen variation"]})
    again = run(named, view, w.knowledge)
    assert again.diagnostics["calibrated"] == 0
    assert np.stack(guesses.values) == pytest.approx(np.stack(again.values), abs=1e-6)


def test_the_way_that_reconstructs_auxiliary_records_best_is_chosen(monkeypatch):
    w = world(211, 6)
    engine = _search.engine_for(w.spec, w.parameters, batch_norm="train", device="cpu")
    good = ("none", 0.03)

    def searched(engine, make, labels, *, options, auxiliary, rng):
        images = (
            make.images if (options.prior, options.total_variation) == good else 0 * make.images
        )
        losses = torch.zeros(len(images))
        return _search.Found(images[:, None], losses, 1, 1)

    class Observed:
        def __init__(self, images):
            self.images = images

    held = []

    def observe(gradients, labels):
        held.append(labels)
        chosen = np.random.default_rng(int(np.random.default_rng(0).integers(2**31))).permutation(
            len(w.auxiliary)
        )[: len(labels)]
        assert (w.auxiliary.labels[chosen] == labels).all()
        return Observed(torch.from_numpy(w.auxiliary.images[chosen]))

    monkeypatch.setattr(_search, "search", searched)
    options = TopKMatching(source="update", total_variation=0.01, calibration=8)
    chosen, told = calibration.calibrated(
        options, engine, w.auxiliary, observe, rng=np.random.default_rng(0)
    )
    assert (chosen.prior, chosen.total_variation) == good
    assert len(held[0]) == options.calibration
    assert told["PSNR on auxiliary records: none, variation 0.03"] == pytest.approx(120)
    assert told["chosen prior is fitted"] == 0


def test_no_prior_is_fitted_to_records_that_span_few_dimensions():
    ways = calibration.candidates(
        TopKMatching(calibration=8), world(113, 3, PAPER).auxiliary, classes=10
    )
    assert [way.fitted for way in ways] == [False, False]
    ways = calibration.candidates(TopKMatching(calibration=8), world(113, 3).auxiliary, classes=10)
    assert [way.fitted for way in ways] == [True, True, True, False, False]


@pytest.mark.parametrize("options", [{"prior": "gaussian"}, {"prior": "none"}, {"calibration": 0}])
def test_what_is_named_is_not_calibrated(options):
    w = world(211, 6)
    attack = TopKMatching(source="update", **{**FAST, **options})
    guesses = run(attack, view_of(w.transcript(), SERVER), w.knowledge)
    assert guesses.diagnostics["calibrated"] == 0
    assert "chosen variation" not in guesses.diagnostics


def test_without_enough_auxiliary_records_or_with_several_a_gradient_nothing_is_calibrated():
    w = world(211, 6)
    few = w.auxiliary.take(np.arange(19))
    attack = TopKMatching(source="update", **FAST)
    guesses = run(attack, view_of(w.transcript(), SERVER), Knowledge(w.spec, w.parameters, few))
    assert guesses.diagnostics["calibrated"] == 0
    several = world(211, 2, per_user=2)
    guesses = run(attack, view_of(several.transcript(), SERVER), several.knowledge)
    assert guesses.diagnostics["calibrated"] == 0


def test_calibration_costs_no_quality_on_records_it_did_not_see():
    w = world(212, 8)
    view = view_of(w.transcript(0.05), MANAGEMENT_SERVER)
    ours = run(RankProfileMatching(calibration=8, refinements=0), view, w.knowledge)
    fixed = run(RankProfileMatching(refinements=0), view, w.knowledge)
    assert median(ours, w.truth()) > median(fixed, w.truth()) - 0.5


def test_options_of_the_calibration_are_checked():
    for name in ("calibration", "prior_variation"):
        with pytest.raises(ConfigurationError, match=name):
            TopKMatching(**{name: -1})
