"""The benchmark of the attacks measures what it says, and judges by its rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def _benchmarks_on_path():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def rules():
    import _attack_expectations

    return _attack_expectations


@pytest.fixture(scope="module")
def measures():
    import _attack_measures

    return _attack_measures


def sample(measures, values, statistic="median", higher=True):
    return measures.Sample(statistic, {str(i): float(v) for i, v in enumerate(values)}, higher)


def verdict_of(rules, measures, key, dataset, values, statistic="median", higher=True):
    found = rules.rows(dataset, {key: sample(measures, values, statistic, higher)})
    assert len(found) == 1
    return found[0].verdict


def test_what_is_accepted_is_reached_at_the_number_and_not_below(rules, measures):
    def judged(values, key="whole: PSNR", **how):
        return verdict_of(rules, measures, key, "digits28", values, **how)

    assert judged([38.0] * 20) == "reached"
    assert judged([37.9] * 20) == "not reached"
    # An interval that holds the number does not help where a number is accepted.
    assert judged([10.0] * 11 + [60.0] * 9) == "not reached"
    assert judged([30.0], key="whole: CPU seconds", statistic="mean", higher=False) == "reached"
    assert judged([50.0], key="whole: CPU seconds", statistic="mean", higher=False) == "not reached"


def test_what_was_only_measured_is_compared_with_our_interval(rules, measures):
    def judged(values):
        return verdict_of(rules, measures, "ranks: PSNR", "mnist", values)

    assert judged([19.2] * 20) == "reached"
    assert judged([15.0] * 11 + [25.0] * 9) == "not reached, within error"
    assert judged([15.0] * 20) == "not reached"
    assert verdict_of(rules, measures, "ranks: PSNR", "digits28", [15.0]) == "–"


def test_a_control_that_works_is_called_so(rules, measures):
    def judged(key, values, statistic):
        return verdict_of(rules, measures, key, "mnist", values, statistic)

    assert judged("random ranks: PSNR over class mean", [0.5] * 20, "median") == "within chance"
    assert judged("random ranks: PSNR over class mean", [3.0] * 20, "median") == "BEYOND CHANCE"
    assert judged("random ranks: identified", [0] * 19 + [1], "proportion") == "within chance"
    assert judged("random ranks: identified", [0] * 15 + [1] * 5, "proportion") == "BEYOND CHANCE"
    assert judged("random ranks: labels", [0] * 17 + [1] * 3, "proportion") == "within chance"
    assert judged("random ranks: labels", [1] * 20, "proportion") == "BEYOND CHANCE"


def test_an_image_that_is_not_finite_is_a_failure_and_lowers_the_figure(rules, measures):
    values = [40.0] * 9 + [float("nan")] * 11 + [20.0]
    (row,) = rules.rows("digits28", {"whole: PSNR": sample(measures, values)})
    assert (row.value, row.n, row.failed) == (20.0, 21, 11)
    (row,) = rules.rows("digits28", {"whole: least PSNR": sample(measures, values, "minimum")})
    assert row.verdict == "not reached"


def test_unnamed_labels_that_are_a_renaming_of_the_shares_correlate_fully(measures):
    from _attack_others import best_correlation

    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(10, 0.3), 20)
    assert best_correlation(shares[:, rng.permutation(10)], shares) == pytest.approx(1)
    assert best_correlation(rng.dirichlet(np.ones(10), 20), shares) < 0.8


def test_naive_order_scores_what_happens_to_have_a_records_number(measures):
    from _attack_cases import quick, world

    from privaudit.attacks.base import Guesses
    from privaudit.scoring.reconstruction import psnr

    case = world(quick(), seed=1, data_root=None).case(users=1, per_user=4)
    images = case.records.images[::-1].copy()
    guesses = Guesses(case.users, (images,), np.zeros(1))
    paired = psnr(guesses, case.truth(), per_record=True).per_target
    assert set(paired.values()) == {120.0}
    assert max(measures.in_order(guesses, case).values()) < 60


def test_adversary_targets_and_training_records_are_disjoint():
    from _attack_cases import quick, world

    made = world(quick("digits"), seed=3, data_root=None)
    parts = [
        {image.tobytes() for image in part.images}
        for part in (made.auxiliary, made.targets, made.others)
    ]
    assert len(parts[0]) == 60
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]


def run_quick(capsys, *arguments: str) -> dict:
    import fidelity_attacks

    assert fidelity_attacks.main(["--quick", "--json", *arguments]) == 0
    out = capsys.readouterr().out
    assert "# Rules, stated before the numbers" in out
    summary = json.loads(out.splitlines()[-1])
    assert summary["form"] == "quick"
    return summary


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder in which tests leave the parts that they finished for the ones after them."""
    return tmp_path_factory.mktemp("kept")


def test_controls_and_batches_run_and_come_with_n_and_interval(capsys, kept):
    parts = ("--only", "controls,several", "--keep", str(kept))
    before = {file.name for file in kept.iterdir()}
    summary = run_quick(capsys, *parts)
    by_key = {row["key"]: row for row in summary["rows"]}
    assert by_key["random ranks: identified"]["n"] == 3
    assert by_key["batch 4: PSNR"]["n"] == 4
    assert by_key["batch 4: PSNR"]["low"] <= by_key["batch 4: PSNR"]["value"]
    assert by_key["batch 4, naive order: PSNR"]["value"] <= by_key["batch 4: PSNR"]["value"]
    # At a size at which nothing is learned no verdict is given.
    assert {row["verdict"] for row in summary["rows"]} <= {"–"}
    files = {file.name for file in kept.iterdir()}
    assert files == before | {"digits-controls-seed-8101.json", "digits-several-seed-8101.json"}
    again = run_quick(capsys, *parts)
    assert again["rows"] == summary["rows"]


@pytest.mark.slow
def test_every_part_runs(capsys, rules, kept):
    summary = run_quick(capsys, "--keep", str(kept))
    found = {row["key"] for row in summary["rows"]}
    wanted = {e.key for e in rules.EXPECTATIONS}
    # Sizes that the quick form leaves out.
    assert {key.split(":")[0] for key in wanted - found} <= {
        *(f"batch {n}" for n in (8, 16)),
        *(f"analytic, batch {n}" for n in (8, 16)),
        *(f"noise, {n} rounds, {f}" for n in (50, 200) for f in ("laplace", "linear")),
    }


def test_finished_parts_of_another_size_are_refused(capsys, tmp_path):
    import fidelity_attacks

    (tmp_path / "digits-noise-seed-8101.json").write_text('{"size": {}, "samples": {}}')
    arguments = ["--quick", "--only", "noise", "--keep", str(tmp_path)]
    assert fidelity_attacks.main(arguments) == 2
    assert "give another folder with --keep" in capsys.readouterr().err
