"""The campaigns of the examples are sound: every run, attack, option and coalition."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from privaudit.campaigns.grid.definition import read_campaign
from privaudit.cli._main import app

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason=f"no {EXAMPLES}: not a checkout")
CAMPAIGNS = sorted(
    path.name for path in EXAMPLES.glob("*.toml") if "[[attack]]" in path.read_text()
)
LEAKAGE = ("batch-size", "epsilon0", "k", "local-steps", "training-progress")


def test_there_is_a_campaign_for_each_of_five_questions() -> None:
    assert {f"leakage-{name}.toml" for name in LEAKAGE} <= set(CAMPAIGNS)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_an_example_plans_its_cells_and_is_short(name: str) -> None:
    campaign = read_campaign(EXAMPLES / name)
    cells = campaign.cells()
    assert 10 <= len(cells) <= 100
    assert len({spec.run["seed"] for spec in cells}) >= 2
    ended = CliRunner().invoke(app, ["run", str(EXAMPLES / name), "--dry-run"])
    assert ended.exit_code == 0, ended.output
    assert f"{len(cells)} cells" in ended.output


@pytest.mark.parametrize("name", LEAKAGE)
def test_an_example_varies_what_it_is_named_after(name: str) -> None:
    campaign = read_campaign(EXAMPLES / f"leakage-{name}.toml")
    axis = {
        "batch-size": "federation.records_per_user",
        "epsilon0": "parameters.epsilon0",
        "k": "parameters.top_k_fraction",
        "local-steps": "parameters.local_epochs",
    }.get(name)
    if axis is not None:
        assert len(campaign.grid[axis]) >= 3
    else:
        rounds = [plan.options.get("round", plan.options.get("rounds")) for plan in campaign.attack]
        assert all(len(values) >= 3 for values in rounds)


def test_the_page_on_campaigns_names_every_example() -> None:
    page = (EXAMPLES.parent / "docs" / "campaigns.md").read_text(encoding="utf-8")
    for name in CAMPAIGNS:
        assert f"examples/{name}" in page, name
