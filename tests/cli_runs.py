"""The console script as a user runs it, for the tests of the command line."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).parent / "privaudit"

#: A run of a second or so: a small network, few users, a similarity that needs no compiler.
TINY = """
[parameters]
rounds = 2
model = "lenet"
similarity = "jaccard"

[federation]
users = 4
groups = 2
records_per_user = 20
auxiliary_records = 20
"""

#: The same, with one record and one gradient a user, so that inversion applies.
SINGLE = """
[parameters]
rounds = 1
model = "lenet"
similarity = "jaccard"
update = "gradient"

[federation]
users = 4
partition = "single-record"
auxiliary_records = 20
"""


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PRIVAUDIT", "FORCE_COLOR"))}
    clean.pop("COLUMNS", None)
    return {**clean, "OMP_NUM_THREADS": "1", **changes}


def privaudit(*arguments: object, cwd: Path, timeout: float = 300, **env: str) -> Ended:
    """Run the script to its end; it must not ask for input."""
    done = subprocess.run(
        [str(SCRIPT), *map(str, arguments)],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def called(
    *arguments: object,
    cwd: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Ended:
    """Call the script's function in this process, which has its libraries loaded already."""
    from privaudit.cli import main

    monkeypatch.chdir(cwd)
    for variable in ("PRIVAUDIT_DATA", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    capsys.readouterr()
    try:
        main([str(a) for a in arguments])
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return Ended(code, out, err)


def in_process(*arguments: object, cwd: Path) -> Ended:
    """As :func:`called`, for fixtures of a whole module: nothing of pytest's is asked for."""
    from privaudit.cli import main

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for variable in ("PRIVAUDIT_DATA", "COLUMNS"):
            patch.delenv(variable, raising=False)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(a) for a in arguments])
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def interrupted(
    *arguments: object, cwd: Path, when: Callable[[], bool], by: signal.Signals
) -> Ended:
    """Run the script, and signal its process group as soon as ``when`` holds."""
    process = subprocess.Popen(
        [str(SCRIPT), *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not when():
            assert process.poll() is None, f"ended before it was interrupted: {process.stderr}"
            time.sleep(0.005)
        os.killpg(process.pid, by)
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ended(process.returncode, out, err)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by relative path."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
