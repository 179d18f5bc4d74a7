"""How every worker process of a campaign starts: one thread, and no life beyond the campaign's."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

__all__ = ["end_with_parent", "one_thread_a_worker", "take_environment", "worker_context"]

#: What every worker needs and takes seconds to load.
_LOADED: Final = ("torch", "privaudit.campaigns.batches", "privaudit.campaigns.grid.specification")


def worker_context() -> ForkServerContext | SpawnContext:
    """Return how workers are started: from a process that has loaded their libraries once.

    That process does nothing else, so that its copies hold no thread and no lock of the campaign;
    it ends with the campaign. Where there is no such thing, workers load the libraries themselves.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    return context


def take_environment(variables: Mapping[str, str]) -> None:
    """Give this worker the variables of the campaign as they are now.

    Those that it was started with are from when the first worker was.
    """
    if dict(os.environ) != dict(variables):
        os.environ.clear()
        os.environ.update(variables)


def one_thread_a_worker() -> None:
    """Let workers that are started from now on compute with one thread, unless told otherwise.

    Libraries read these variables when they are loaded, for a worker before all else.
    """
    for variable in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ):
        os.environ.setdefault(variable, "1")


def end_with_parent() -> None:
    """End this worker as soon as the campaign's process is gone, even if it was killed."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
