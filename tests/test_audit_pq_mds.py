"""The audit of PQ-MDS end to end: what its report says follows from what was measured."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cli_runs import SCRIPT, Ended, in_process, privaudit
from index_runs import Run, digits_run, truth_of

from privaudit.attacks.base import Guesses
from privaudit.attacks.control import deranged, deranged_rows
from privaudit.attacks.indices import (
    PRESETS,
    IndexMembership,
    KnownSampleReconstruction,
    RecordLinking,
)
from privaudit.campaigns.cells import Cell, measure
from privaudit.campaigns.pq_mds import Config, check_inputs
from privaudit.campaigns.pq_mds.adversaries import fitting_numbers
from privaudit.campaigns.records import grid_columns, record_scorers, row_control
from privaudit.cli._main import app
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError, PrivauditError
from privaudit.reports import AuditReport, read_report
from privaudit.scoring.estimate import estimate
from privaudit.scoring.membership import auc_scores, hit_scores, membership_auc, true_positives_at
from privaudit.scoring.records import person_truth, record_identification
from privaudit.transcript import Truth

TINY = """
known_rows = 40
persons = 60
targets = 40
epsilons = [4.0]
beside = false

[parameters]
reference = true
initialisations = 2

[federation]
rows = 300
auxiliary_rows = 200
"""

slow = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("pq-mds")
    (folder / "tiny.toml").write_text(TINY)
    ended = in_process(
        "audit", "pq-mds", "-o", "out", "--config", "tiny.toml", "-j", "1", cwd=folder
    )
    return folder, ended


@pytest.fixture(scope="module")
def report(finished: tuple[Path, Ended]) -> AuditReport:
    folder, ended = finished
    assert ended.code == 0, ended.err
    return read_report(folder / "out")


class TestReport:
    pytestmark = slow

    def test_every_risk_is_breached_by_one_party_and_the_claim_does_not_hold(
        self, report: AuditReport
    ) -> None:
        assert {(v.risk, v.verdict, v.size) for v in report.verdicts} == {
            (risk, "breached", 1)
            for risk in ("reconstruction", "inference", "linkability", "singling-out")
        }
        assert report.claim_result.startswith("No. A stranger who got the uploads")
        (claim,) = [c for c in report.claims if "eliminated" in c.statement]
        assert claim.verdict == "does not hold"
        assert len(report.claims) == 4

    def test_every_threat_model_has_its_figures_or_the_reason_for_none(
        self, report: AuditReport
    ) -> None:
        (table,) = [t for t in report.tables if t.id == "threat-models"]
        assert len(table.columns) == 2 + len(PRESETS)
        told = " ".join(f"{n.attack} {n.coalition_label}" for n in report.not_run)
        for row in table.rows:
            for label, cell in zip(table.columns[2:], row[2:], strict=True):
                lacking = [
                    n
                    for n in report.not_run
                    if n.attack == f"indices/{row[0]}" and label in n.coalition_label.split("; ")
                ]
                assert (cell is None) == bool(lacking), (row[0], label, told)
        assert all(n.status == "not-applicable" and n.reason for n in report.not_run)

    def test_headlines_never_rest_on_an_upper_bound(self, report: AuditReport) -> None:
        headlines = [f for f in report.findings if f.headline]
        assert len(headlines) == report.simultaneous_tests == 18
        assert not [f for f in headlines if "upper bound" in f.coalition_label]
        assert all(f.control is not None for f in report.findings)

    def test_scaling_is_a_relabelling_and_names_alone_rebuild_records(
        self, report: AuditReport
    ) -> None:
        codes = [f for f in report.findings if f.attack == "indices/code-recovery"]
        assert {f.estimate.value for f in codes} == {1.0}
        names = [f for f in report.findings if f.setting.endswith("taken for mere names")]
        assert names[0].estimate.value < 0.5 < names[0].baseline.value
        (grid,) = [f for f in report.findings if f.attack == "indices/integer-grid"]
        assert grid.estimate.value == 1.0

    def test_the_private_variant_has_a_budget_and_the_protocol_has_none(
        self, report: AuditReport
    ) -> None:
        assert "has none" in report.budget_statements[0]
        users = [b for b in report.budgets if b.role == "user"]
        assert {b.epsilon0 for b in users} == {4.0}
        by_party = min(b.upper or 0.0 for b in users)
        person = [b for b in report.budgets if b.quantity.startswith("one person over all")]
        assert min(b.upper or 0.0 for b in person) > by_party > 4.0
        assert [row.what for row in report.uncovered] == ["embedded codes (indices)"]
        (table,) = [t for t in report.tables if t.id == "randomised-response"]
        # The published references at delta = 1e-5: sum, privacy loss distribution, Renyi.
        assert [[round(float(v or 0), 2) for v in row[3:6]] for row in table.rows] == [
            [4.0, 2.49, 2.82],
            [8.0, 5.99, 6.65],
            [16.0, 9.11, 10.0],
            [4.0, 4.0, 4.0],
        ]

    def test_settings_stand_beside_references_and_no_data_at_all(self, report: AuditReport) -> None:
        (table,) = [t for t in report.tables if t.id == "settings"]
        ari = {str(row[0]): row[1] for row in table.rows}
        nothing = ari["reference: no data (random codes)"]
        assert isinstance(nothing, float)
        assert abs(nothing) < 0.05
        assert "reference: k-means on pooled columns" in ari
        epsilon = {str(row[0]): row[-1] for row in table.rows if row[-1] is not None}
        assert all(name.startswith("private") for name in epsilon)
        leakage = next(t for t in report.tables if t.id == "formal-leakage")
        jointly = {row[0]: row for row in leakage.rows if row[1] == "jointly"}
        assert jointly["as audited"][6] == 1.0  # every row has codes of its own
        assert jointly["coarse codes (no differential privacy)"][8] >= 5

    def test_pictures_are_shown_of_public_data(self, report: AuditReport) -> None:
        (gallery,) = report.galleries
        assert len(gallery.targets.pngs) == 10
        assert [row.label for row in gallery.rows][:3] == [
            "10 known rows",
            "20 known rows",
            "40 known rows",
        ]
        assert "federated model" not in report.system.run_sentence
        assert "2 parties hold 32 and 32 of the 64 columns" in report.system.run_sentence

    def test_the_same_command_resumes(
        self, finished: tuple[Path, Ended], report: AuditReport
    ) -> None:
        folder, _ = finished
        again = privaudit(
            "audit", "pq-mds", "-o", "out", "--config", "tiny.toml", "-j", "1", cwd=folder
        )
        assert again.code == 0
        assert read_report(folder / "out").findings == report.findings

    def test_attack_grants_what_the_audit_does_and_says_so(
        self, finished: tuple[Path, Ended]
    ) -> None:
        folder, _ = finished
        run = str(folder / "out" / "runs" / "main")
        arguments = ("attack", run, "--attack", "indices/known-sample", "--coalition", "server")
        found = in_process(*arguments, cwd=folder)
        assert found.code == 0, found.err
        assert "granted: known-records" in found.err
        assert "normalised reconstruction error" in found.out
        refused = in_process(*arguments, "--withhold", "known-records", cwd=folder)
        assert refused.code == 3
        assert "known-records" in refused.err


def _write_table(file: Path, *, rows: int = 160) -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=rows)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "income", "job", "score", "ill"])
        for g in group:
            writer.writerow(
                [
                    round(20 + 20 * g + rng.normal(), 2),
                    round(1234.5 * g + 100 * rng.normal(), 2),
                    ("Falconer", "Glazier", "Cooper")[g],
                    round(rng.normal() + g, 3),
                    ("no", "yes")[int(g == 2)],
                ]
            )


class TestOwnTable:
    pytestmark = slow

    OPTIONS = ("--table", "people.csv", "--split", "random", "--label", "ill", "-j", "1", "-q")
    CONFIG = """
known_rows = 20
persons = 20
targets = 20
epsilons = [4.0]
beside = false

[parameters]
initialisations = 1
"""

    def test_nothing_of_the_data_is_in_the_report_unless_asked_for(self, tmp_path: Path) -> None:
        _write_table(tmp_path / "people.csv", rows=120)
        (tmp_path / "small.toml").write_text(self.CONFIG)
        audit = ("audit", "pq-mds", "--config", "small.toml", *self.OPTIONS)
        closed = in_process(*audit, "-o", "closed", cwd=tmp_path)
        assert closed.code == 0, closed.err
        report = read_report(tmp_path / "closed")
        assert not report.system.data_is_public
        assert not report.galleries
        assert not [t for t in report.tables if t.id.startswith("examples")]
        for name in ("report.json", "report.html", "report.md"):
            text = (tmp_path / "closed" / name).read_text(encoding="utf-8")
            assert "Falconer" not in text
            assert str(tmp_path) not in text
        # Scaling by numbers computed from the rows is a release that no budget covers.
        assert any("no finite budget" in s for s in report.budget_statements)
        opened = in_process(*audit, "-o", "opened", "--include-examples", cwd=tmp_path)
        assert opened.code == 0, opened.err
        shown = [t for t in read_report(tmp_path / "opened").tables if t.id == "examples-main"]
        assert any("job=Falconer" in column for column in shown[0].columns)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("disue", "--table", "people.csv"), "--table does not apply to 'disue'"),
            (("pa-cfl", "--split", "random"), "--split does not apply to 'pa-cfl'"),
            (("pq-mds", "--users", "5"), "--users does not apply to 'pq-mds'"),
            (("disue", "--include-examples"), "--include-examples does not apply"),
            (("pq-mds", "--table", "none.csv"), "there is no such file"),
            (("pq-mds", "--table", "people.txt"), "the name must end in"),
            (("pq-mds", "--table", "people.csv", "--dataset", "digits"), "not both"),
            (("pq-mds", "--table", "people.csv", "--split", "halves"), "needs images"),
            (("pq-mds", "--table", "people.csv", "--label", "il"), "Did you mean 'ill'"),
            (("pq-mds", "--table", "people.csv", "--parties", "1"), "two parties or more"),
            (("pq-mds", "--table", "gaps.csv"), "column 'age' lacks 1 of 160 values"),
        ],
    )
    def test_what_does_not_fit_is_refused_before_anything_is_written(
        self,
        arguments: tuple[str, ...],
        message: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        _write_table(tmp_path / "people.csv")
        text = (tmp_path / "people.csv").read_text(encoding="utf-8").splitlines()
        text[3] = "," + text[3].split(",", 1)[1]
        (tmp_path / "gaps.csv").write_text("\n".join(text), encoding="utf-8")
        with pytest.raises(PrivauditError, match=message):
            app(["audit", arguments[0], "-o", "out", *arguments[1:]], standalone_mode=False)
        assert not (tmp_path / "out").exists()


def small() -> Run:
    return digits_run(4, 8, rows=200, total=360)


def cell_of(run: Run, preset: str, attack: object, **options: int) -> Cell:
    given = run.grant(preset, **{"known": 40, "persons": 60, **options})
    return Cell(
        attack=attack,  # type: ignore[arg-type]
        coalition=PRESETS[preset].coalition(run.transcript),
        label=preset,
        transcript=run.transcript,
        digest="a run",
        truth=truth_of(run, given),
        knowledge=given.knowledge,
        scorers=record_scorers(attack, false_positives=0.1),  # type: ignore[arg-type]
        control=row_control(attack, 200),  # type: ignore[arg-type]
    )


class TestCells:
    def test_cells_of_other_knowledge_have_other_keys(self) -> None:
        run, attack = small(), RecordLinking()
        keys = {
            cell_of(run, "server_known", attack, seed=seed, known=known).key()
            for seed in (0, 1)
            for known in (40, 41)
        }
        assert len(keys) == 4
        same = cell_of(run, "server_known", attack)
        assert same.key() == cell_of(run, "server_known", attack).key()

    def test_every_part_of_vertical_knowledge_is_in_the_key(self) -> None:
        run = small()
        cell = cell_of(run, "server_known", RecordLinking())
        vertical = cell.knowledge.vertical
        assert vertical is not None
        assert vertical.known is not None
        assert vertical.partial is not None
        assert vertical.layout is not None
        assert vertical.candidates is not None
        moved = dict(vertical.layout)
        moved["party-1"] = moved["party-1"][::-1]
        changes = (
            {"known": replace(vertical.known, ids=vertical.known.ids[::-1])},
            {"partial": replace(vertical.partial, noise=0.5)},
            {"candidates": vertical.candidates[::-1]},
            {"layout": moved},
            {"auxiliary": np.zeros((2, 64))},
        )
        keys = {
            replace(
                cell, knowledge=replace(cell.knowledge, vertical=replace(vertical, **change))
            ).key()
            for change in changes
        }
        assert len(keys | {cell.key()}) == 6

    def test_control_and_targets_are_in_the_key(self) -> None:
        cell = cell_of(small(), "server_known", KnownSampleReconstruction())
        others = {
            replace(cell, control=deranged).key(),
            replace(cell, control=partial(deranged_rows, rows=200, separately=True)).key(),
            replace(cell, targets=frozenset({"row-1"})).key(),
        }
        assert len(others | {cell.key()}) == 4

    def test_only_the_named_targets_are_scored_and_kept(self) -> None:
        cell = cell_of(small(), "server_known", KnownSampleReconstruction())
        whole = measure(replace(cell, keep_guesses=True))
        some = frozenset(list(whole.guesses)[:7])
        part = measure(replace(cell, keep_guesses=True, targets=some))
        assert set(part.guesses) == set(part.triples[0].attack.per_target) == some
        assert set(part.triples[0].baseline.per_target) == some

    def test_the_control_of_membership_tears_rows_apart(self) -> None:
        cell = cell_of(small(), "server_known", IndexMembership())
        (hits, area) = measure(cell).triples
        assert area.control is not None
        assert estimate(area.control, confidence=0.99).low < 0.5
        assert hits.unit == "proportion"


class TestScores:
    def draw(self, seed: int, members: int, others: int) -> tuple[Guesses, Truth]:
        rng = np.random.default_rng(seed)
        scores = np.concatenate([rng.normal(1, 1, members), rng.normal(0, 1, others)])
        names = tuple(f"candidate-{i}" for i in range(len(scores)))
        truth = person_truth({n: 1 if i < members else None for i, n in enumerate(names)})
        return Guesses(names, tuple(np.array(s) for s in scores), scores), truth

    def test_the_mean_of_the_scores_is_the_area_and_its_interval_that_of_both_groups(self) -> None:
        guesses, truth = self.draw(0, 150, 90)
        exact = membership_auc(guesses, truth)
        found = estimate(auc_scores(guesses, truth), confidence=0.95)
        assert found.value == pytest.approx(exact.value, abs=1e-12)
        assert found.high - found.low == pytest.approx(exact.high - exact.low, rel=0.15)

    def test_hits_are_counted_as_in_the_estimate(self) -> None:
        guesses, truth = self.draw(1, 80, 120)
        exact = true_positives_at(guesses, truth, false_positives=0.05)
        found = estimate(hit_scores(guesses, truth, false_positives=0.05), confidence=0.95)
        assert (found.value, found.low, found.high) == (exact.value, exact.low, exact.high)

    def test_a_record_is_identified_if_no_other_is_as_near(self) -> None:
        records = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 3.0]], dtype=np.float32)
        truth = Truth(
            {
                "rows": {"ids": np.arange(4)},
                "party-1": {"features": records, "columns": np.arange(2)},
            }
        )
        guesses = Guesses(
            ("row-0", "row-1", "row-3"),
            (np.array([0.4, 0.1]), np.array([1.0, 0.0]), np.array([np.nan, 3.0])),
            np.zeros(3),
        )
        # Row 2 equals row 1, so that no guess tells them apart; a guess that is not finite fails.
        assert record_identification(guesses, truth).per_target == {
            "row-0": 1.0,
            "row-1": 0.0,
            "row-3": 0.0,
        }

    def test_grids_are_found_in_whatever_unit(self) -> None:
        table = np.stack(
            [np.arange(12) % 5 / 16, np.sqrt(np.arange(12.0)), np.zeros(12)], axis=1
        ).astype(np.float32)
        truth = Truth({"party-1": {"features": table, "columns": np.array([4, 5, 6])}})
        assert grid_columns(truth, levels=17) == {4: pytest.approx(1 / 16)}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"parameters": {"codewrds": 8}}, "Did you mean 'codewords'"),
        ({"parameters": {"release": "codes"}}, "is a reference"),
        ({"parameters": {"subspaces": 40}}, "party 'party-1' has 32 columns"),
        ({"parameters": {"clusters": 2000}}, "clusters must be at most"),
        ({"federation": {"rows": 30}}, "40 rows or more"),
        ({"federation": {"dataset": "diggits"}}, "unknown table 'diggits'"),
    ],
)
def test_wrong_parameters_are_found_before_anything_runs(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(PrivauditError, match=message):
        check_inputs(validated(Config, values, where="test"))


def test_defaults_of_a_data_set_give_way_to_what_is_given() -> None:
    tables = validated(Config, {"federation": {"dataset": "breast-cancer"}}, where="test")
    assert tables.federation.widths == (10, 20)
    assert tables.run().parameters["subspaces"] == (3, 6)
    random = {"federation": {"dataset": "breast-cancer", "split": "random"}}
    other = validated(Config, random, where="test")
    assert other.federation.widths is None
    assert other.federation.scaling == "standard"
    assert "subspaces" not in other.run().parameters
    assert Config().federation.split == "halves"


def test_a_quarter_of_the_rows_is_known_at_most() -> None:
    assert fitting_numbers(1000, known=100, persons=150) == (100, 150)
    assert fitting_numbers(80, known=100, persons=150) == (20, 20)
    with pytest.raises(ConfigurationError, match="40 rows or more"):
        fitting_numbers(39, known=100, persons=150)
