"""The figures, galleries and budgets of a campaign's report, from cells that were measured."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from privaudit.campaigns.grid import Campaign, Store, run_campaign
from privaudit.campaigns.grid.budgets import budget_words, run_budgets
from privaudit.campaigns.grid.report import _headlines, campaign_report
from privaudit.campaigns.grid.specification import CellSpec, execute
from privaudit.campaigns.grid.store import Row
from privaudit.campaigns.grid.trust import trust_of
from privaudit.campaigns.measurements import Measurement, ScoreTriple, measurement_from_json
from privaudit.campaigns.pa_cfl.verdicts import FIXED_THRESHOLD
from privaudit.campaigns.pa_cfl.wording import TRUST as PA_CFL_TRUST
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError
from privaudit.reports import render_html, render_markdown
from privaudit.reports._opening import make_opening
from privaudit.reports.heatmap import heat_map
from privaudit.reports.intervals import interval_chart
from privaudit.reports.model import AuditReport, Interval
from privaudit.scoring.estimate import Scores

CAMPAIGN: dict[str, Any] = {
    "name": "pictures",
    "protocol": "pa-cfl",
    "parameters": {"rounds": 1, "model": "mlp", "update": "gradient", "similarity": "jaccard"},
    "federation": {"users": 6, "partition": "single-record", "auxiliary_records": 30},
    "grid": {
        "parameters.epsilon0": [1.0, 4.0],
        "parameters.top_k_fraction": [0.01, 0.1],
        "seed": [0, 1],
    },
    "attack": [
        {
            "name": "collusion/update-recovery",
            "coalitions": ["aggregation-server", "aggregation-server + 1 user", "4 users"],
        },
        {
            "name": "inversion/zero-fill",
            "coalitions": ["aggregation-server + 1 user"],
            "options": {"iterations": 10},
        },
    ],
}


class InProcess:
    def run(self, tasks: Any, *, runs: Path, data_root: Path | None) -> Iterator[Any]:
        for key, spec in tasks:
            yield key, execute(spec.to_json(), runs=runs, data_root=data_root)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AuditReport]:
    folder = tmp_path_factory.mktemp("campaign")
    campaign = validated(Campaign, CAMPAIGN, where="test")

    def silent(stage: str, done: int, total: int, detail: str = "") -> None:
        return

    run_campaign(campaign, folder, engine=InProcess(), steps=silent)
    return folder, campaign_report(campaign, folder)


def _figure(report: AuditReport, start: str) -> Any:
    (found,) = [f for f in report.figures if f.title.startswith(start)]
    return found


def test_leakage_against_coalition_size_names_sizes_and_guessing(
    made: tuple[Path, AuditReport],
) -> None:
    alt = _figure(made[1], "Leakage by coalition: collusion/update-recovery").alt
    order = [alt.index(f" {who}") for who in ("aggregation-server (1)", "4 users (4)")]
    assert order == sorted(order)
    assert "aggregation-server + 1 user (2)" in alt
    assert "Guessing reaches 0" in alt


def test_points_pool_the_targets_of_all_cells_that_a_figure_does_not_tell_apart(
    made: tuple[Path, AuditReport],
) -> None:
    folder, report = made
    with Store(folder, readonly=True) as store:
        rows = store.rows(status="measured")
    values: list[float] = []
    for row in rows:
        spec = row.specification
        if (
            spec.attack == "collusion/update-recovery"
            and spec.coalition == "aggregation-server + 1 user"
            and spec.run["parameters"]["top_k_fraction"] == 0.1
        ):
            assert row.result is not None
            m = measurement_from_json({**row.result, "seconds": 0.0})
            values += m.triples[0].attack.per_target.values()
    assert len(values) == 2 * 2 * 5  # two values of epsilon0, two seeds, all users but one
    alt = _figure(report, "Success against k / d: collusion/update-recovery").alt
    assert f"{np.mean(values):.3f} (" in alt


def test_success_is_drawn_against_epsilon0_and_k_and_as_a_heat_map(
    made: tuple[Path, AuditReport],
) -> None:
    titles = [f.title for f in made[1].figures]
    for start in ("Success against ε₀: ", "Success against k / d: ", "Heat map: "):
        for attack in ("collusion/update-recovery", "inversion/zero-fill"):
            assert sum(t.startswith(f"{start}{attack} on pa-cfl") for t in titles) == 1
    assert all(len(f.alt) > 60 for f in made[1].figures)


def test_a_run_beyond_what_is_proven_costs_its_own_budget_alone(tmp_path: Path) -> None:
    run = {"protocol": "pa-cfl", "parameters": {"epsilon0": 1000.0}}
    found = run_budgets([run], tmp_path, delta=1e-5)
    assert found.rows == found.words == ()
    (flag,) = found.flags
    assert "No budget is given for runs at ε₀ = 1000: epsilon0 must be finite" in flag


def test_epsilon_is_drawn_against_cluster_size_from_the_runs_own_ledgers(
    made: tuple[Path, AuditReport],
) -> None:
    _, report = made
    titles = [f.title for f in report.figures if "by cluster size" in f.title]
    assert [t.rpartition(" = ")[2] for t in titles] == ["1", "4"]
    brackets = [row for row in report.budgets if row.role == "bracket"]
    assert {row.epsilon0 for row in brackets} == {1.0, 4.0}
    (sentence,) = [s for s in report.budget_statements if "at least" in s and "at most" in s]
    for role, figure in (
        ("bracket", r"and at most (\S+) \([^()]*\) at ε₀.=.4"),
        ("local", r"unshuffled at most (\S+)\) at ε₀.=.4"),
    ):
        worst = max(
            row.upper or 0.0 for row in report.budgets if (row.role, row.epsilon0) == (role, 4.0)
        )
        found = re.search(figure, sentence)
        assert found is not None
        assert worst <= float(found[1]) <= 1.01 * worst  # rounded to its safe side


def test_a_budget_stands_behind_its_condition_and_with_what_the_accounting_flags(
    made: tuple[Path, AuditReport],
) -> None:
    statements = made[1].budget_statements
    assert statements[0].startswith(f"{FIXED_THRESHOLD}, ε of the noised part")
    assert "would be in one round" in statements[0]
    assert statements[0].endswith(
        "median of the users' norms, so that no bound holds as it stands."
    )
    told = " ".join(made[1].limitations)
    assert told.count("The clipping threshold is the median of the users' norms") == 1
    assert "management-server sees reports before they are shuffled" in told
    # The two values of epsilon0 need clusters of different sizes.
    assert told.count("Budget: For instance at ε₀ = 1: The closed form") == 1
    rows = [row for row in made[1].budgets if row.epsilon0 == 1.0]
    (fixed,) = budget_words(rows, fixed=True)
    assert fixed.startswith("ε of the noised part of a PA-CFL user's report is in one round")
    assert "no bound holds" not in fixed
    twice = [row.model_copy(update={"rounds": 2, "upper": 9.0}) for row in rows if row.upper]
    (both,) = budget_words([*rows, *twice], fixed=True)
    assert both.endswith("; over 2 rounds at most 9.")
    page = render_html(made[1]).partition('id="evidence"')[0]
    assert FIXED_THRESHOLD in page


def test_a_campaign_says_what_its_words_mean_and_whom_its_protocols_trust(
    made: tuple[Path, AuditReport],
) -> None:
    told = made[1].system.run_sentence
    assert "A cell is one measurement" in told
    assert "ε₀, the budget of one noised value (2 values)" in told
    assert "k / d, the share of an update sent as important" in told
    assert made[1].trust_assumptions == PA_CFL_TRUST
    assert trust_of(["pa-cfl", "pa-cfl"]) == PA_CFL_TRUST
    several = trust_of(["fedavg", "of-others"])
    assert several[0].startswith("fedavg: The server, which receives the whole update")
    assert any(line.startswith("of-others: ") for line in several)


def test_galleries_show_the_records_and_what_was_made_of_them(
    made: tuple[Path, AuditReport],
) -> None:
    (gallery,) = made[1].galleries
    assert gallery.title == "inversion/zero-fill on pa-cfl"
    assert len(gallery.rows) == 4
    picture = Image.open(io.BytesIO(base64.b64decode(gallery.targets.pngs[0])))
    assert picture.size == (8, 8)
    assert "cells on them" in gallery.caption


def test_no_picture_of_data_that_are_not_public_is_kept(tmp_path: Path) -> None:
    data = np.random.default_rng(0)
    np.savez(
        tmp_path / "own.npz",
        images=data.random((60, 1, 8, 8), dtype=np.float32),
        labels=data.integers(0, 4, 60),
    )
    campaign = validated(
        Campaign,
        {
            **CAMPAIGN,
            "federation": {
                **CAMPAIGN["federation"],
                "dataset": str(tmp_path / "own.npz"),
                "users": 4,
                "auxiliary_records": 20,
            },
            "grid": {"seed": [0]},
            "attack": CAMPAIGN["attack"][1:],
        },
        where="test",
    )
    (cell,) = campaign.cells()
    result = execute(cell.to_json(), runs=tmp_path / "runs")
    assert result["status"] == "measured", result["reason"]
    assert "pictures" not in result


def test_findings_that_no_verdict_rests_on_leave_their_targets_to_the_results(
    made: tuple[Path, AuditReport],
) -> None:
    findings = made[1].findings
    assert all(bool(f.per_target) == f.headline for f in findings)
    assert len(render_html(made[1])) < 1_500_000


def _point(value: float) -> Interval:
    return Interval(value=value, low=value - 0.1, high=value + 0.1)


@pytest.mark.parametrize("upright", [True, False])
def test_an_interval_chart_tells_every_point_and_leaves_gaps(upright: bool) -> None:
    figure = interval_chart(
        ["1", "2"],
        {"a server with a long name + 12 users": (_point(0.5), None), "b": (_point(1), _point(2))},
        baseline=(0.25, 0.25),
        id="x",
        title="t",
        caption="c",
        quantity="accuracy",
        axis="ε₀",
        upright=upright,
    )
    assert "0.500 (0.400 to 0.600) at 1" in figure.alt
    assert "2.00 (1.90 to 2.10) at 2" in figure.alt


def test_an_interval_chart_refuses_what_it_cannot_draw() -> None:
    options: dict[str, Any] = {
        "id": "x", "title": "t", "caption": "", "quantity": "q", "axis": "a", "upright": True,
    }  # fmt: skip
    with pytest.raises(ConfigurationError, match="series"):
        interval_chart(["1"], {}, baseline=(0,), **options)
    with pytest.raises(ConfigurationError, match="'a' has 2 values"):
        interval_chart(["1"], {"a": (_point(1), _point(1))}, baseline=(0,), **options)


@pytest.mark.parametrize("values", [[[1.0, 1.0]], [[0.0, 1.0]], [[0.4, 0.6]]])
def test_numbers_on_a_heat_map_stand_out_from_their_ground(values: list[list[float]]) -> None:
    figure = heat_map(
        values, rows=["r"], columns=["a", "b"], row_axis="x", column_axis="y",
        id="h", title="t", quantity="q",
    )  # fmt: skip
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(figure.png))).convert("L"))
    height, width = image.shape
    for left, right in ((0.3, 0.5), (0.7, 0.9)):
        part = image[int(0.1 * height) : int(0.5 * height), int(left * width) : int(right * width)]
        assert int(part.max()) - int(part.min()) > 100


def test_the_first_page_names_who_breaches_what_and_leaves_the_list_to_the_evidence(
    made: tuple[Path, AuditReport],
) -> None:
    report = made[1]
    opening = make_opening(report, digest="0" * 64)
    overview = opening.overview
    assert overview is not None
    rows = {row[1].text: [c.text for c in row] for row in overview.verdicts.rows}
    names = [c.name for c in overview.verdicts.columns]
    heads = [f for f in report.findings if f.headline]
    for f in heads:
        told = rows[f"{f.coalition_label} ({f.coalition_size})"][names.index(f.risk.capitalize())]
        same = {g.verdict for g in heads if (g.coalition, g.risk) == (f.coalition, f.risk)}
        assert told == min(same, key=["breached", "inconclusive", "not shown"].index)
    assert sum(int(row[names.index("Measured")]) for row in rows.values()) == 32
    # One figure a protocol and risk here; the others, also those that failed, stand behind.
    (worst,) = overview.worst.rows
    assert "[" in worst[2].text
    assert worst[-1].text == "8"
    assert "(Bonferroni: 99.844\u202f% each," in overview.worst.note.replace("\xa0", "\u202f")
    assert overview.missing == (("32 of 32 cells were measured; none failed.", ""),)
    page, _, evidence = render_html(report).partition('id="evidence"')
    listed = [f for f in heads if f.full_title in evidence]
    assert listed == heads
    assert not any(f.full_title in page for f in heads)


def test_a_breach_is_a_headline_before_a_higher_figure_that_is_known_less_exactly() -> None:
    def cell(key: str, successes: int, n: int) -> tuple[Row, Measurement]:
        def share(k: int) -> Scores:
            return Scores("m", "proportion", {f"t{i}": float(i < k) for i in range(n)})

        spec = CellSpec({"protocol": "pa-cfl", "seed": 0}, "a", coalition="server")
        triple = ScoreTriple("m", "proportion", share(successes), share(0), None)
        m = Measurement("measured", "", (triple,), {}, 0.0)
        return Row(key, spec, "measured", "", None, 0.0), m

    few, many, least = cell("few", 3, 3), cell("many", 90, 100), cell("least", 80, 100)
    assert _headlines([few, many, least], 1 - 0.05 / 3) == {"many": 3}
    assert _headlines([few], 1 - 0.05 / 3) == {"few": 1}


def test_cells_that_do_not_apply_or_fail_are_counted_on_the_first_page(tmp_path: Path) -> None:
    campaign = validated(
        Campaign,
        {
            **CAMPAIGN,
            "grid": {"seed": [0]},
            "attack": [
                {
                    "name": "collusion/update-recovery",
                    "coalitions": ["aggregation-server", "nobody", "6 users"],
                },
            ],
        },
        where="test",
    )
    run_campaign(campaign, tmp_path, engine=InProcess(), steps=lambda *told: None)
    report = campaign_report(campaign, tmp_path)
    counts = report.cells
    assert counts is not None
    assert (counts.measured, counts.failed, counts.not_applicable) == (1, 1, 1)
    opening = make_opening(report, digest="0" * 64)
    assert opening.overview is not None
    missing = dict(opening.overview.missing)
    assert missing["Failed or missing: 1 cell (collusion/update-recovery)."] == "not-run"
    assert missing["Not applicable: 1 cell (collusion/update-recovery)."] == "not-run"
    rows = {row[1].text: row[-1].text for row in opening.overview.verdicts.rows}
    assert rows == {"aggregation-server (1)": "0", "nobody": "1", "6 users": "1"}
    assert 'href="#not-run"' in render_html(report)
    assert "'Attacks that did not run'" in " ".join(render_markdown(report).split())
