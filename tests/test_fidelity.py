"""The fidelity benchmark measures what it says, and judges by its rules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privaudit.campaigns.simulation import federate, simulate
from privaudit.datasets import load_dataset
from privaudit.errors import ConfigurationError
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import MemoryRecorder

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def _benchmarks_on_path():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def measures():
    import _fidelity_measures

    return _fidelity_measures


@pytest.fixture(scope="module")
def rules():
    import _fidelity_verdicts

    return _fidelity_verdicts


@pytest.fixture(scope="module")
def script():
    import fidelity_pa_cfl

    return fidelity_pa_cfl


@pytest.fixture(scope="module")
def tiny(measures):
    return measures.Setting(
        "digits",
        records_per_user=16,
        overlap_records_per_label=4,
        rounds=2,
        late_round=2,
        training={"learning_rate": 0.1, "batch_size": 16, "local_epochs": 1},
        users=6,
        groups=2,
    )


@pytest.fixture(scope="module")
def tiny_results(measures, tiny):
    return {
        0: {
            "clustering": measures.clustering(tiny, 0, None),
            "overlap": measures.overlap(tiny, 0, None),
            "training": measures.training(tiny, 0, None),
            "ablation": measures.ablation(tiny, 0, None),
        }
    }


def run_of(accuracies, *, diverged=False, pre=0.2, final=0.5):
    """A training record as the measurements write it."""
    n = len(accuracies)
    return {
        "status": "diverged" if diverged else "completed",
        "rounds": n,
        "reason": "",
        "accuracy": list(accuracies),
        "phi": [1.0] * n,
        "pre_ari": [pre] * n,
        "final_ari": [final] * n,
        "pre_clusters": [2.0] * n,
    }


def verdict_of(rules, claim_start, results):
    found = [v for v in rules.verdicts(results) if v.claim.startswith(claim_start)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("percent", [0, 20, 40, 60, 80, 100])
def test_overlapping_labels_share_the_stated_part_with_the_first_user(measures, percent):
    labels = measures.overlap_labels(percent)
    assert len(set(labels)) == 5
    assert len(set(labels) & {0, 1, 2, 3, 4}) == percent / 20


def test_seven_users_hold_disjoint_records_and_the_stated_labels(measures):
    dataset = load_dataset("digits")
    data = measures.overlapping_users(dataset, 10, rng=np.random.default_rng(0))
    held = [
        {(c.train.images[i].tobytes(), int(c.train.labels[i])) for i in range(len(c.train))}
        for c in data.clients
    ]
    assert len(data.clients) == 7
    assert len(set.union(*held)) == sum(map(len, held)) == 7 * 50
    expected = [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (4, 5, 6, 7, 8), (3, 4, 5, 6, 7)]
    expected += [(2, 3, 4, 5, 6), (1, 2, 3, 4, 5), (0, 1, 2, 3, 4)]
    for client, labels in zip(data.clients, expected, strict=True):
        assert Counter(client.train.labels.tolist()) == dict.fromkeys(labels, 10)
        assert set(client.test.labels.tolist()) == set(labels)


def test_too_few_records_for_the_overlap_are_refused(measures):
    with pytest.raises(ValueError, match="too few records of class"):
        measures.overlapping_users(load_dataset("digits"), 60, rng=np.random.default_rng(0))


def test_listener_hears_what_a_full_recording_holds(measures, tiny):
    data = federate(tiny.federation(), seed=3)
    config = tiny.run(3, protection=False)
    listener, memory = measures.Listener({2}), MemoryRecorder()
    simulate(config, data, recorder=listener)
    simulate(config, data, recorder=memory)
    sequences, updates = listener.heard(2)
    sent = [
        m.arrays["indices"]
        for m in memory.transcript().messages
        if m.kind == kinds.PERMUTATION_SEQUENCE and m.round == 2
    ]
    truth = memory.truth()
    assert np.array_equal(sequences, np.stack(sent))
    for position, client in enumerate(data.clients):
        assert np.array_equal(updates[position], truth.get(f"{client.party}/round-2", "update"))


def test_clear_blocks_are_found_by_every_partition_and_their_ratio_is_exact(measures):
    groups = np.repeat([0, 1, 2], 4)
    distances = np.where(np.equal.outer(groups, groups), 1.0, 10.0)
    np.fill_diagonal(distances, 0.0)
    row = measures.partition_row(distances, groups)
    assert row["skip"] == row["stop"] == row["average_linkage"] == 1.0
    assert row["within_between"] == pytest.approx(0.1)
    # Mean distance to the medoid 3/4 in each block, medoids 10 apart: 2 * 0.75 / 10.
    assert row["dbi_found"] == row["dbi_groups"] == pytest.approx(0.15)


def test_one_cluster_has_no_index(measures):
    groups = np.array([0, 0, 1])
    row = measures.partition_row(np.ones((3, 3)) - np.eye(3), groups)
    assert row["dbi_found"] is None
    assert row["skip"] == 0.0


def test_blocks_of_other_groups_have_no_agreement(measures):
    groups = np.tile([0, 1], 4)
    blocks = np.repeat([0, 1], 4)
    distances = np.where(np.equal.outer(blocks, blocks), 1.0, 10.0)
    np.fill_diagonal(distances, 0.0)
    row = measures.partition_row(distances, groups)
    assert row["skip"] < 0.1
    assert row["average_linkage"] < 0.1


def test_every_similarity_update_and_round_has_a_row_in_range(measures, tiny_results):
    rows = tiny_results[0]["clustering"]["rows"]
    keys = [(r["update"], r["round"], r["similarity"]) for r in rows]
    assert sorted(keys) == sorted(
        (u, t, s) for u in ("gradient", "fedavg") for t in (1, 2) for s in measures.SIMILARITIES
    )
    for row in rows:
        assert all(-1 <= row[f] <= 1 for f in ("stop", "skip", "average_linkage"))
        assert row["within_between"] > 0


def test_curves_are_divided_by_their_largest_value(measures, tiny_results):
    curves = tiny_results[0]["overlap"]["curves"]
    assert tuple(curves) == measures.OVERLAP_METRICS
    for curve in curves.values():
        assert len(curve) == 6
        assert max(curve) == 1.0
        assert min(curve) >= 0.0


def test_every_planned_run_is_measured_and_printed(measures, rules, tiny, tiny_results):
    from _fidelity_tables import training_tables

    runs = rules.runs_of(tiny_results)[0]
    assert set(runs) == set(measures.RUN_ORDER)
    text = "\n".join(training_tables(tiny, tiny_results))
    assert all(f"| {name} |" in text for name in runs)
    # Without protection there is no threshold; with it every complete round has one.
    assert runs[measures.NON_PRIVATE]["phi"] == [None, None]
    assert all(p > 0 for p in runs["PA-CFL, eps0 = 30"]["phi"])


def test_every_claim_is_judged_on_complete_results(rules, tiny_results):
    found = rules.verdicts(tiny_results)
    assert [v.claim for v in found] == [c.claim for c in rules.CLAIMS]
    assert {v.verdict for v in found} <= {"reproduced", "partly", "not reproduced"}
    assert all(v.seeds == 1 and v.rule and v.ours for v in found)


def test_claims_without_results_are_not_judged(rules):
    assert rules.verdicts({0: {}}) == []


def test_shape_figures_of_a_straight_and_a_bent_curve(rules):
    straight = np.array([1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    assert rules.decline(straight) == 1.0
    assert rules.roughness(straight) == pytest.approx(0.0, abs=1e-12)
    assert rules.rise(straight) == 0.0
    bent = np.array([1.0, 0.5, 0.7, 0.7])
    assert rules.rise(bent) == pytest.approx(0.2)
    assert rules.roughness(bent) == pytest.approx((0.7 + 0.2) / 2)


@pytest.mark.parametrize(
    ("accuracy", "diverged", "expected"),
    [
        (0.99, False, "reproduced"),
        (0.96, False, "partly"),
        (0.90, False, "not reproduced"),
        (0.997, True, "not reproduced"),
    ],
)
def test_accuracy_claim_follows_its_rule(rules, accuracy, diverged, expected):
    results = {
        0: {"training": {"runs": {"PA-CFL, eps0 = 1": run_of([accuracy], diverged=diverged)}}}
    }
    assert verdict_of(rules, "Accuracy of PA-CFL at eps0 = 1", results).verdict == expected


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        ((0.9, 0.9), (0.5, 0.5), "reproduced"),
        ((0.9, 0.4), (0.5, 0.5), "partly"),
        ((0.5, 0.5), (0.5, 0.5), "not reproduced"),
    ],
)
def test_comparison_claim_follows_its_rule(measures, rules, ours, others, expected):
    results = {
        seed: {
            "training": {"runs": {measures.NON_PRIVATE: run_of([a]), measures.FEDAVG: run_of([b])}}
        }
        for seed, (a, b) in enumerate(zip(ours, others, strict=True))
    }
    assert verdict_of(rules, "PA-CFL* is more accurate than FedAvg", results).verdict == expected


@pytest.mark.parametrize(
    ("ari", "expected"), [(0.9, "reproduced"), (0.5, "partly"), (0.49, "not reproduced")]
)
def test_clustering_claim_reads_round_one_of_accumulated_updates(rules, ari, expected):
    def row(update, t, score):
        return {"update": update, "round": t, "similarity": "fastdtw", "skip": score}

    rows = [row("gradient", 1, 1.0), row("fedavg", 1, ari), row("fedavg", 6, -0.5)]
    results = {0: {"clustering": {"rows": rows}}}
    claim = "Pre-clustering finds the groups, FastDTW (experiments), round 1"
    assert verdict_of(rules, claim, results).verdict == expected


def test_figure_claim_needs_fall_steepness_and_smoothness(measures, rules):
    best = [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    poor = [1.0, 0.9, 1.0, 0.9, 1.0, 0.9]
    names = measures.OVERLAP_METRICS
    claim = "Figure 11(a): FastDTW declines"

    def judged(fastdtw, others):
        curves = {name: fastdtw if name == "fastdtw" else others for name in names}
        return verdict_of(rules, claim, {0: {"overlap": {"curves": curves}}}).verdict

    assert judged(best, poor) == "reproduced"
    assert judged(poor, best) == "not reproduced"
    assert judged([1.0, 1.0, 0.9, 0.9, 0.8, 0.8], best) == "partly"


def test_a_diverged_run_is_printed_with_its_round(rules, tiny):
    from _fidelity_tables import training_tables

    runs = {"PA-CFL, eps0 = 1": run_of([0.2], diverged=True)}
    text = "\n".join(training_tables(tiny, {0: {"training": {"runs": runs}}}))
    assert "diverged at round 2 (1 of 1)" in text


def test_a_kept_part_is_reused_and_never_overwritten_by_another_setting(script, tiny, tmp_path):
    first = script.measured("overlap", tiny, 0, data_root=None, keep=tmp_path)
    (file,) = tmp_path.iterdir()
    stored = json.loads(file.read_text())
    assert stored["value"] == first
    file.write_text(json.dumps({**stored, "value": {"curves": "kept"}}))
    again = script.measured("overlap", tiny, 0, data_root=None, keep=tmp_path)
    assert again == {"curves": "kept"}
    other = replace(tiny, overlap_records_per_label=3)
    with pytest.raises(ConfigurationError, match="other settings"):
        script.measured("overlap", other, 0, data_root=None, keep=tmp_path)
    assert json.loads(file.read_text())["value"] == {"curves": "kept"}


def test_the_same_seed_gives_the_same_figures(measures, tiny, tiny_results):
    assert measures.overlap(tiny, 0, None) == tiny_results[0]["overlap"]
    assert measures.overlap(tiny, 1, None) != tiny_results[0]["overlap"]


def test_pre_clusters_without_any_agreement_are_printed_not_dropped(rules, tiny):
    from _fidelity_tables import training_tables

    runs = {"PA-CFL*": run_of([0.2, 0.3], pre=0.0, final=0.25)}
    text = "\n".join(training_tables(tiny, {0: {"training": {"runs": runs}}}))
    assert "| PA-CFL* | 0.00 | 0.25 |" in text


@pytest.mark.slow
def test_the_scripts_last_line_is_one_json_object():
    environment = {k: v for k, v in os.environ.items() if k != "PRIVAUDIT_DATA"}
    done = subprocess.run(
        [
            sys.executable,
            str(BENCHMARKS / "fidelity_pa_cfl.py"),
            *("--dataset", "digits", "--seeds", "1", "--parts", "overlap", "--json"),
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=True,
    )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["form"] == "short"
    assert set(found["results"]) == set(found["verdicts"]) == {"digits"}
    assert set(found["results"]["digits"]["0"]) == {"overlap"}
    assert all(v["seeds"] == 1 for v in found["verdicts"]["digits"])
    assert "| claim | section | paper | here | seeds | verdict |" in done.stdout


def test_full_form_without_mnist_ends_with_one_line_and_code_two(
    script, monkeypatch, tmp_path, capsys
):
    monkeypatch.delenv("PRIVAUDIT_DATA", raising=False)
    assert script.main(["--full", "--data-root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: data set 'mnist'")
