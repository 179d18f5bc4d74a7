"""What every worker process of a campaign does: one thread, and no life beyond the campaign's."""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait

__all__ = ["end_with_parent", "one_thread_a_worker"]


def one_thread_a_worker() -> None:
    """Let workers that are started from now on compute with one thread, unless told otherwise.

    Libraries read these variables when they are loaded, in a spawned worker before all else.
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
