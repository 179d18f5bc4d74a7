"""The example of a plug-in is installed as a user would, found, run and checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import SCRIPT, privaudit

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"

#: Kind, name, and a part of what is listed about it.
PARTS = (
    ("attack", "example/bias-label", "most frequent label"),
    ("protocol", "example-signs", "signs"),
    ("scorer", "example-label", "most frequent label"),
    ("engine", "example-serial", "in this process"),
    ("reader", "example-updates", "one round"),
    ("reporter", "example-csv", "CSV"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"),
    pytest.mark.skipif(not EXAMPLE.is_dir(), reason=f"no {EXAMPLE}: not a checkout"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed plug-in."""
    target = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    ended = subprocess.run([*install, target, EXAMPLE], capture_output=True, text=True)
    if ended.returncode and "hatchling" in ended.stderr:
        pytest.skip("the build backend cannot be fetched here: no package index")
    assert ended.returncode == 0, ended.stderr
    return target


def test_every_part_is_listed_explained_and_used_like_our_own(site: Path, tmp_path: Path) -> None:
    def command(*arguments: str) -> str:
        ended = privaudit(*arguments, cwd=tmp_path, PYTHONPATH=str(site))
        assert ended.code == 0, ended.err
        return ended.out

    listed = json.loads(command("list", "--json"))
    for kind, name, said in PARTS:
        assert name in listed[f"{kind}s"]
        assert said in listed[f"{kind}s"][name]
    assert "most frequent label" in command("explain", "example/bias-label")
    command(
        *("simulate", "fedavg", "-o", "run", "-q", "--rounds", "1", "--users", "8"),
        *("--partition", "dirichlet", "-p", "model=mlp"),
    )
    shown = json.loads(
        command(
            *("attack", "run", "--attack", "example/bias-label", "--coalition", "server"),
            "--json",
        )
    )
    assert shown["guesses"] == 8
    assert [f["metric"] for f in shown["figures"]] == [
        "dominant label",
        "share of the guessed label",
    ]


CAMPAIGN = """
name = "toy"
protocol = "example-signs"
parameters = { rounds = 1, model = "mlp", local_epochs = 1 }
federation = { users = 3, records_per_user = 8 }
attack = [{ name = "example/bias-label", coalitions = ["server"] }]
"""


def test_a_campaign_runs_its_protocol_on_its_engine_and_is_reported_in_its_format(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "toy.toml").write_text(CAMPAIGN)
    (tmp_path / "updates.csv").write_text("# updates of one round\nuser-1,0.5\nuser-2,3.0\n")

    def command(*arguments: str) -> str:
        ended = privaudit(*arguments, cwd=tmp_path, PYTHONPATH=str(site))
        assert ended.code == 0, ended.err
        return ended.out

    # Signs are no updates: the attack does not apply, which is no failure.
    told = command("run", "toy.toml", "-o", "toy", "-q", "--engine", "example-serial", "--json")
    assert json.loads(told)["not_applicable"] == 1
    written = command("report", "toy", "--format", "example-csv").strip()
    assert Path(tmp_path, written).read_text().startswith("attack,coalition,metric")
    seen = json.loads(command("views", "updates.csv", "--coalition", "server", "--json"))
    assert seen["views"][0]["messages"][0]["kind"] == "update"
    assert seen["views"][0]["messages"][0]["messages"] == 2


def test_it_passes_the_conformance_kits(site: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests"],
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
