"""The benchmark of PCSC runs on few coordinates and prints the figures that others read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks" / "pcsc.py"


@pytest.mark.slow
def test_the_benchmark_prints_its_figures_as_json_last() -> None:
    pytest.importorskip("tenseal", reason="tenseal is in the extra 'crypto'")
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--json", "--dimension", "500", "--rounds", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    asked = ("encrypt_s", "respond_s", "decode_s", "attack_s", "ckks_ratio", "peak_rss_mb")
    assert all(figures[name] > 0 for name in asked)
    assert figures["dimension"] == 500
    assert figures["attack_exact"] is True
    inexact = {"ckks_8192", "ckks_16384"}
    assert {name for name, row in figures["schemes"].items() if row.get("exact")} == (
        figures["schemes"].keys() - inexact
    )
    assert all(row["error"] < 1e-4 for row in figures["schemes"].values() if "error" in row)
