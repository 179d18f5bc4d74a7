"""Run ``privaudit epsilon``: as a user does, and in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privaudit.cli import main

SCRIPT = Path(sys.executable).parent / "privaudit"


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the console script as a user does, 80 columns wide."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(
        [str(SCRIPT), "epsilon", *arguments], capture_output=True, text=True, env=environment
    )


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process, which is faster: (exit code, stdout, stderr)."""
    code = 0
    try:
        main(["epsilon", *arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def strict_json(text: str) -> Any:
    """Read JSON that must not hold NaN or infinity."""

    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} is not JSON")

    return json.loads(text, parse_constant=refuse)
