"""What the audit of PA-CFL asks of each view, the verdict on the AS alone, and figure 10 redone."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from pa_cfl_runs import AS, execute

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion import (
    AnalyticInversion,
    BlindMatching,
    CosineInversion,
    RankProfileMatching,
    TopKMatching,
)
from privaudit.campaigns.cells import Measurement, ScoreTriple, measure
from privaudit.campaigns.pa_cfl.audit import check_inputs
from privaudit.campaigns.pa_cfl.claims import claims_of
from privaudit.campaigns.pa_cfl.config import AuditConfig
from privaudit.campaigns.pa_cfl.exposed import Exposed
from privaudit.campaigns.pa_cfl.figure10 import ExposureFigure, exposure_figure
from privaudit.campaigns.pa_cfl.plan import plan_figure, plan_probe, plan_undefended
from privaudit.campaigns.pa_cfl.training import plan_membership, plan_training
from privaudit.campaigns.pa_cfl.verdicts import verdicts_of
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.runs import RecordedRun
from privaudit.configuration import validated
from privaudit.datasets import load_dataset
from privaudit.datasets.base import LabelledImages
from privaudit.datasets.partition import single_record_users
from privaudit.errors import ConfigurationError
from privaudit.reports.model import ExposureRow, Finding, Interval
from privaudit.reports.picture_grid import PictureRow, picture_grid
from privaudit.scoring.reconstruction import identification, psnr, ssim
from privaudit.transcript import Transcript, Truth

# What is planned, and what applies.


@cache
def recorded_run(k: int, single: bool = True) -> RecordedRun:
    digits = load_dataset("digits")
    rng = np.random.default_rng(4)
    data = single_record_users(digits, users=4, auxiliary_records=40, rng=rng)
    more: dict[str, Any] = {} if single else {"rounds": 2}
    parameters = {"rounds": 1, "update": "gradient", "top_k": k, "similarity": "jaccard", **more}
    run = execute(data, **parameters)
    return RecordedRun(run.transcript, run.truth, data.auxiliary, {}, "run", True, "digits")


def probe_plan(k: int) -> list[Planned]:
    return list(plan_probe(recorded_run(k), fraction=0.01, headline=True, seed=0))


def test_blind_attacks_with_fewer_values_than_classes_are_not_applicable() -> None:
    blind = [
        p for p in probe_plan(8) if p.cell.label == "AS" and "sorted" not in p.cell.attack.name
    ]
    assert {p.cell.attack.name for p in blind} == {
        "inversion/blind-top-k",
        "inference/labels-from-values",
        "inversion/blind-coordinates",
    }
    for item in blind:
        measured = measure(item.cell)
        assert measured.status == "not-applicable"
        assert "8 values for 10 classes" in measured.reason


@pytest.mark.parametrize(("k", "fallback"), [(8, True), (10, False)])
def test_sorted_values_judge_the_as_only_where_nothing_stronger_applies(
    k: int, fallback: bool
) -> None:
    judged = {p.cell.attack.name for p in probe_plan(k) if p.headline and p.cell.label == "AS"}
    assert ("inversion/sorted-values" in judged) is fallback
    assert {"inversion/blind-top-k", "inference/labels-from-values"} <= judged


def test_undefended_gradients_are_inverted_by_search_and_by_algebra() -> None:
    run = recorded_run(8)
    for planned in (
        list(plan_undefended(run, fractions=(0.01,), seed=0)),
        list(plan_figure(run, fraction=0.01, fractions=(), seed=0)),
    ):
        whole = {p.cell.attack.name: p for p in planned if p.position is None}
        assert {"inversion/cosine", "inversion/analytic"} <= set(whole)
        assert whole["inversion/analytic"].title == (
            "Records from undefended gradients (layer by layer)"
        )
        assert len({p.cell.key() for p in planned}) == len(planned)
        # They are the reference: no verdict on PA-CFL rests on them.
        assert not any(p.headline for p in planned)


def test_membership_is_asked_of_every_server_and_needs_coordinates() -> None:
    cells = [
        p.cell for p in plan_membership(recorded_run(12), protected=True, setting="a run", seed=0)
    ]
    methods = {getattr(c.attack, "method", "") for c in cells if c.label == "AS + 1 user"}
    assert methods == {"loss-change", "gradient-alignment", "matched-filter", "likelihood-ratio"}
    alone = [c for c in cells if c.label in ("AS", "MS")]
    assert {measure(c).status for c in alone} == {"not-applicable"}
    # Asking uses up no more than half of what the adversary learns from.
    assert all(len(c.knowledge.auxiliary or ()) >= 20 for c in cells)


def test_updates_are_linked_by_both_servers_and_by_the_as_only_with_a_user() -> None:
    cells = [
        p.cell
        for p in plan_training(recorded_run(12, False), headline=True, setting="a run", seed=0)
        if p.cell.attack.name == "reidentification/gradient-linking"
    ]
    status = {c.label: measure(c) for c in cells}
    assert {k: m.status for k, m in status.items()} == {
        "MS": "measured",
        "AS + 1 user": "measured",
        "AS": "not-applicable",
    }
    assert "add one user to the coalition" in status["AS"].reason


# What is concluded of the AS alone.


def finding(attack: str, *, value: float, baseline: float, verdict: str, **more: Any) -> Finding:
    values: dict[str, Any] = {
        "id": attack,
        "risk": "reconstruction",
        "title": f"Result of {attack}",
        "summary": "",
        "attack": attack,
        "attack_version": "1",
        "coalition": (AS,),
        "coalition_label": "AS",
        "coalition_size": 1,
        "capabilities": (),
        "setting": "PA-CFL, a model, k = 0.25 % of d",
        "metric": "identification",
        "estimate": Interval(value=value, low=value, high=value),
        "baseline": Interval(value=baseline, low=baseline, high=baseline),
        "control": None,
        "confidence": 0.95,
        "n": 21,
        "failed": 0,
        "method": "",
        "verdict": verdict,
        "headline": True,
        "worst_target": "user-1",
        "worst_value": value,
        "per_target": {"user-1": value},
        "parameters": {},
        "seconds": 0.0,
        "unit": "proportion",
    }
    return Finding.model_validate({**values, **more})


def colluding() -> Exposed:
    row = ExposureRow(
        coalition_label="AS + 1 user",
        size=2,
        targets=20,
        exact_fraction=0.0025,
        worst_exact_fraction=0.0025,
        exact_verified=1.0,
        noised_fraction=0.0,
        unplaced_values=0,
        anonymity_minimum=0,
        anonymity_median=0.0,
        attributed_verified=0.0,
        note="",
    )
    return Exposed(row, (AS, "user-1"), 0.0, 0, float("nan"))


SORTED = finding("inversion/sorted-values", value=0.0, baseline=0.0, verdict="not shown")
LABELS = finding("inference/labels-from-values", value=1.0, baseline=0.14, verdict="breached")
SHARES = finding("inference/zero-sum-labels", value=0.1, baseline=0.8, verdict="breached")


def placing(value: float) -> Finding:
    return finding(
        "inversion/blind-coordinates",
        value=value,
        baseline=0.01,
        verdict="breached",
        metric="coordinate accuracy",
        headline=False,
    )


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([SORTED], "reproduced"),
        ([SORTED, SHARES], "partly reproduced"),
        ([SORTED, LABELS, placing(0.7)], "not reproduced"),
    ],
)
def test_the_claim_on_the_as_rests_on_the_strongest_attack(
    findings: list[Finding], verdict: str
) -> None:
    claims = claims_of(
        findings=findings,
        exposures=[colluding()],
        budgets=(),
        outcomes={},
        partitions={},
        epsilon0=1.0,
        dataset="digits",
    )
    (claim,) = [c for c in claims if "propositions 2 and 3" in c.source]
    assert claim.verdict == verdict
    for f in findings:
        if f.headline:
            assert f.attack in claim.evidence
    assert "n = 21, baseline" in claim.evidence
    if len(findings) == 3:
        assert "placed 70.0% of the values at their coordinates (by rank alone 1.0%" in (
            claim.evidence
        )


@pytest.mark.parametrize(
    ("share", "size"), [(0.7, 1), (0.3, 2)], ids=["most values", "fewer than half"]
)
def test_important_values_are_exposed_to_the_as_alone_once_it_places_most(
    share: float, size: int
) -> None:
    verdicts = verdicts_of([SORTED, placing(share)], [colluding()])
    (row,) = [v for v in verdicts if v.risk.startswith("exposure")]
    assert (row.verdict, row.size) == ("breached", size)
    assert "The aggregation server with one user knows every important value" in row.sentence


# Figure 10.

USERS = ("user-1", "user-2", "user-3")


def synthetic_run(digest: str) -> RecordedRun:
    rng = np.random.default_rng(1)
    images = rng.uniform(0.3, 0.7, (40, 1, 8, 8)).astype(np.float32)
    labels = np.arange(40) % 10
    truth = Truth(
        {u: {"images": images[i : i + 1], "labels": labels[i : i + 1]} for i, u in enumerate(USERS)}
    )
    transcript = cast(
        Transcript, SimpleNamespace(public_arrays={"initial-parameters": np.zeros(5000)})
    )
    auxiliary = LabelledImages(images[10:], labels[10:].astype(np.int64))
    return RecordedRun(transcript, truth, auxiliary, {}, digest, True, "noise")


def row(run: RecordedRun, attack: Any, label: str, error: float) -> tuple[Planned, Measurement]:
    """A measured row whose guesses are off by a known error, hence of a known PSNR."""
    truth = run.truth
    assert truth is not None
    signs = np.where(np.arange(64).reshape(1, 8, 8) % 2, 1.0, -1.0)
    targets = USERS if "user" not in label else USERS[1:]
    guesses = Guesses(
        targets,
        tuple(truth.get(u, "images")[0] + error * signs for u in targets),
        np.zeros(len(targets)),
    )
    triples = tuple(
        ScoreTriple(name, "", scorer(guesses, truth), scorer(guesses, truth), None)
        for name, scorer in (("identification", identification), ("PSNR", psnr), ("SSIM", ssim))
    )
    kept = dict(zip(guesses.target_ids, guesses.values, strict=True))
    measured = Measurement("measured", "", triples, {}, 0.0, kept)
    cell = SimpleNamespace(attack=attack, label=label, digest=run.digest)
    return cast(Planned, SimpleNamespace(cell=cell)), measured


def figure(
    *, blind: Measurement | None = None, analytic: tuple[Planned, Measurement] | None = None
) -> ExposureFigure:
    probe, plain = synthetic_run("probe"), synthetic_run("plain")
    results = [
        row(plain, TopKMatching(source="update", k_fraction=0.1), "server", 0.3),
        row(plain, CosineInversion(), "server", 0.001),
        row(plain, TopKMatching(source="update", k_fraction=0.0025), "server", 0.01),
        row(probe, BlindMatching(), "AS", 0.1),
        row(probe, TopKMatching(), "AS + 1 user", 0.02),
        row(probe, RankProfileMatching(), "MS", 0.05),
    ]
    if blind is not None:
        results[3] = results[3][0], blind
    if analytic is not None:
        results.append(analytic)
    made = exposure_figure(results, probe=probe, undefended=plain, fraction=0.0025)
    assert made is not None
    return made


def test_figure_10_has_a_row_a_view_with_scores_under_each_picture() -> None:
    made = figure()
    captions = {r.label: r.captions for r in made.gallery.rows}
    assert made.gallery.targets.captions == ("user-2", "user-3"), "the colluder is no target"
    # PSNR is -20 log10 of the error that was put in; the row of k = 10 % is not this figure's.
    expected = (60.0, 40.0, 20.0, 34.0, 26.0)
    for told, decibels in zip(captions.values(), expected, strict=False):
        assert all(float(c.split(" dB")[0]) == pytest.approx(decibels, abs=0.1) for c in told)
    assert [r[0] for r in made.table.rows[-2:]] == [
        "Baseline: mean image of the true class",
        "Baseline: mean image",
    ]
    assert "highly indistinguishable" in str(made.table.rows[4])
    assert [r[6] for r in made.table.rows[:5]] == [3, 3, 3, 2, 3], "n is that of each row"


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"diagnostics": {"updates solved exactly": 0.95}}, "inversion/analytic"),
        ({"diagnostics": {"updates solved exactly": 0.0}}, "inversion/cosine"),
        ({"status": "not-applicable", "reason": "no", "guesses": {}}, "inversion/cosine"),
    ],
    ids=["solved", "searched for", "not applicable"],
)
def test_the_full_gradient_is_shown_by_algebra_where_it_solves_and_else_by_search(
    change: dict[str, Any], shown: str
) -> None:
    item, measured = row(synthetic_run("plain"), AnalyticInversion(), "server", 1e-5)
    told = figure(analytic=(item, replace(measured, **change))).table.rows[0]
    assert told[1] == shown
    # An error of 1e-5 is 100 dB, one of 1e-3 is 60.
    assert str(told[3]).startswith("100.0" if shown == "inversion/analytic" else "60.0")


def test_a_view_that_no_attack_could_read_says_why() -> None:
    reason = "users send 8 values for 10 classes"
    made = figure(blind=Measurement("not-applicable", reason, (), {}, 0.0))
    assert made.gallery.rows[2].pngs == ("", "")
    assert reason in str(made.table.rows[2])


def test_the_picture_of_the_figure_is_a_png_of_all_rows() -> None:
    from PIL import Image

    made = figure()
    picture = Image.open(io.BytesIO(made.png))
    assert picture.format == "PNG"
    assert picture.height > 8 * 100
    assert made.png == figure().png, "the same figures, the same bytes"
    assert all(base64.b64decode(png) for r in made.gallery.rows for png in r.pngs)


def test_rows_of_different_lengths_are_refused() -> None:
    image = np.zeros((1, 4, 4))
    rows = [PictureRow("a", (), (image,)), PictureRow("b", (), (image, image))]
    with pytest.raises(ConfigurationError, match="same number of pictures"):
        picture_grid(rows, title="", note="")


def test_a_figure_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigurationError, match=r"allowed are exposures.*mean 'exposures'"):
        validated(AuditConfig, {"figures": ["exposure"]}, where="options")


def test_a_figure_does_not_make_another_audit_of_the_same_folder() -> None:
    plain, with_figure = AuditConfig(), AuditConfig(figures=("exposures",))
    assert plain.model_dump(mode="json") == with_figure.model_dump(mode="json")


def test_records_that_are_not_public_are_not_drawn(tmp_path: Path) -> None:
    private = AuditConfig(figures=("exposures",))
    federation = private.federation.model_copy(update={"dataset": str(tmp_path / "own.npz")})
    with pytest.raises(ConfigurationError, match="not public: a report is a release"):
        check_inputs(private.model_copy(update={"federation": federation}))
