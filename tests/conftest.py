"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

# One thread a library: several test processes share the cores. pytest imports this file before
# any test module imports numpy or torch.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# A shell lets what it starts in the background ignore SIGINT, and children inherit that: tests
# that interrupt a process would wait for its end.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The developers' folder of papers, specifications and data; its tests skip without it."""
    folder = Path(os.environ.get("PRIVAUDIT_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "spec").is_dir():
        pytest.skip(f"no developers' folder at {folder}")
    return folder


@pytest.fixture(scope="module")
def brief_fits() -> Iterator[None]:
    """For tests of whether attacks run, not of how well they do: fit moments in fewer steps."""
    from privaudit.attacks.inversion._blind_moments import Moments

    whole = Moments.fit

    def fit(self: Moments, shares: Any, templates: Any, *, steps: int) -> Any:
        return whole(self, shares, templates, steps=min(steps, 20))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Moments, "fit", fit)
        yield


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The script's function, called in this process: many cases in little time."""
    from cli_runs import called

    return partial(called, capsys=capsys, monkeypatch=monkeypatch)
