"""The example of a plug-in is installed as a user would, found, run and checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import SCRIPT

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


CAMPAIGN = """
name = "toy"
protocol = "example-signs"
parameters = { rounds = 1, model = "mlp", local_epochs = 1 }
federation = { users = 3, records_per_user = 8 }
attack = [{ name = "example/bias-label", coalitions = ["server"] }]
"""
#: Runs several commands in one process, and prints what each printed.
DRIVER = """
import contextlib, io, json, sys
from privaudit.cli import main
told = []
for arguments in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main(arguments)
        except SystemExit as ended:
            assert not ended.code, arguments
    told.append(out.getvalue())
print(json.dumps(told))
"""


def test_every_part_is_listed_explained_and_used_like_our_own(site: Path, tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(CAMPAIGN)
    (tmp_path / "updates.csv").write_text("# updates of one round\nuser-1,0.5\nuser-2,3.0\n")
    commands = (
        "list --json",
        "explain example/bias-label",
        "simulate fedavg -o run -q --rounds 1 --users 8 --partition dirichlet -p model=mlp",
        "attack run --attack example/bias-label --coalition server --json",
        "run toy.toml -o toy -q --engine example-serial --json",
        "report toy --format example-csv",
        "views updates.csv --coalition server --json",
        "views updates.csv --coalition server --json --reader example-updates",
    )
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([command.split() for command in commands]),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    listed, explained, _, attacked, campaign, written, views, named = json.loads(ended.stdout)
    for kind, name, said in PARTS:
        assert said in json.loads(listed)[f"{kind}s"][name]
    assert "most frequent label" in explained
    shown = json.loads(attacked)
    assert shown["guesses"] == 8
    metrics = [figure["metric"] for figure in shown["figures"]]
    assert metrics == ["dominant label", "share of the guessed label"]
    # Signs are no updates: the attack does not apply, which is no failure.
    assert json.loads(campaign)["not_applicable"] == 1
    table = (tmp_path / written.strip()).read_text(encoding="utf-8")
    assert table.startswith("attack,coalition,metric")
    (message,) = json.loads(views)["views"][0]["messages"]
    assert (message["kind"], message["messages"]) == ("update", 2)
    assert named == views


def test_the_commands_of_its_readme_run_on_the_files_beside_it(site: Path, tmp_path: Path) -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```sh\n")[1].split("```")[0].splitlines()
    commands = [line.split("#")[0].removeprefix("privaudit ").split() for line in shown]
    for name in ("updates.csv", "campaign.toml"):
        shutil.copy(EXAMPLE / name, tmp_path)
    assert (EXAMPLE / "updates.csv").read_text(encoding="ascii") in readme
    ended = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(commands),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    told = dict(zip((" ".join(c) for c in commands), json.loads(ended.stdout), strict=True))
    assert "update" in told["views updates.csv"]
    assert (tmp_path / told["report results --format example-csv"].strip()).is_file()


def test_it_passes_the_conformance_kits(site: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests"],
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
