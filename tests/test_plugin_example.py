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


def test_it_is_listed_explained_and_run_like_our_own(site: Path, tmp_path: Path) -> None:
    def command(*arguments: str) -> str:
        ended = privaudit(*arguments, cwd=tmp_path, PYTHONPATH=str(site))
        assert ended.code == 0, ended.err
        return ended.out

    assert "example/bias-label" in command("list", "attacks", "--json")
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


def test_it_passes_the_conformance_kit(site: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests"],
        env={**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
