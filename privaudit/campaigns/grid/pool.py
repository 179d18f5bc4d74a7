"""Worker processes with limits: one that dies or runs too long costs one task."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from privaudit.campaigns.workers import (
    end_with_parent,
    one_thread_a_worker,
    take_environment,
    worker_context,
)
from privaudit.errors import ConfigurationError, PrivauditError

__all__ = ["Answer", "Pool"]

Work = Callable[[Any], dict[str, Any]]

#: How often limits are looked at, in seconds.
_TICK: Final = 0.2
_STATUS: Final = "/proc/{}/status"


def _serve(work: Work, pipe: Connection, log: Path | None, variables: Mapping[str, str]) -> None:
    """Answer tasks until the pipe is closed; an exception becomes its text."""
    take_environment(variables)
    # Ctrl-C reaches every process of the terminal; the parent alone says what happened.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = log.open("a", encoding="utf-8", buffering=1)
        os.dup2(stream.fileno(), sys.stderr.fileno())
        logging.basicConfig(format="%(asctime)s %(message)s")
        logging.getLogger("privaudit").setLevel(logging.INFO)
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            # The time limit is on the task, not on how long the libraries take to load.
            pipe.send(None)
            try:
                answer: dict[str, Any] | str = work(task)
            except PrivauditError as error:
                answer = str(error)
            except Exception as error:
                # The boundary of a worker: whatever a task raises is told, with its trace in the
                # log, and the worker goes on.
                import traceback

                traceback.print_exc()
                answer = f"{type(error).__name__}: {error}"
            pipe.send(answer)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a task.

    Attributes
    ----------
    result : dict or None
        None if it has none.
    reason : str
        Why it has none.
    log : Path or None
        What the worker wrote to standard error, if it is kept.
    """

    result: dict[str, Any] | None
    reason: str = ""
    log: Path | None = None


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    log: Path | None
    key: str | None = None
    #: When it began the task; infinite before.
    started: float = math.inf


class Pool:
    """Workers that measure tasks, each in a process of its own that can be ended.

    Parameters
    ----------
    work : callable
        Module-level function (or a partial of one) from a task to its result.
    jobs : int
    seconds : float or None
        Time limit of a task.
    megabytes : float or None
        Limit of a worker's resident memory.
    logs : Path or None
        Folder for what workers write to standard error.

    Raises
    ------
    ConfigurationError
        If a memory limit is asked for where the memory of a process cannot be read.
    """

    def __init__(
        self,
        work: Work,
        *,
        jobs: int,
        seconds: float | None = None,
        megabytes: float | None = None,
        logs: Path | None = None,
    ) -> None:
        if megabytes is not None and not Path(_STATUS.format(os.getpid())).is_file():
            raise ConfigurationError("a memory limit needs /proc, which this system does not have")
        self._work, self._jobs, self._logs = work, jobs, logs
        self._seconds, self._megabytes = seconds, megabytes
        self._workers: list[_Worker] = []
        self._count = 0
        one_thread_a_worker()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Every result is told already: nobody has to wait for a worker's libraries to unload.
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.join(timeout=5)
        self._workers.clear()

    def results(self, tasks: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Answer]]:
        """Yield key and answer of every task as it is done."""
        waiting = list(reversed(list(tasks)))
        while waiting or any(w.key is not None for w in self._workers):
            while len(self._workers) < min(
                self._jobs, len(waiting) + sum(w.key is not None for w in self._workers)
            ):
                self._workers.append(self._start())
            for worker in self._workers:
                if worker.key is None and waiting:
                    worker.key, task = waiting.pop()
                    worker.started = math.inf
                    with contextlib.suppress(OSError):
                        # A worker that is gone already is found out below.
                        worker.pipe.send(task)
            yield from self._finished()

    def _finished(self) -> Iterator[tuple[str, Answer]]:
        busy = [w for w in self._workers if w.key is not None]
        ready = set(wait([w.pipe for w in busy], timeout=_TICK))
        for worker in busy:
            key, answer = worker.key, self._answer(worker, ready=worker.pipe in ready)
            if answer is None or key is None:
                continue
            worker.key = None
            yield key, answer

    def _answer(self, worker: _Worker, *, ready: bool) -> Answer | None:
        """Return what a busy worker has to say, or why it will not; None if it is still at work."""
        if ready:
            try:
                answer: dict[str, Any] | str | None = worker.pipe.recv()
                if answer is None:
                    worker.started = time.monotonic()
                    return None
                if isinstance(answer, str):
                    return Answer(None, answer, worker.log)
                return Answer(answer, log=worker.log)
            except (EOFError, OSError):
                worker.process.join(timeout=5)
                code = worker.process.exitcode
                return self._lost(worker, f"its worker process died (exit code {code})")
        taken = time.monotonic() - worker.started
        if self._seconds is not None and taken > self._seconds:
            return self._lost(worker, f"it took longer than the limit of {self._seconds:g} s")
        if self._megabytes is not None:
            used = _resident(worker.process.pid)
            if used > self._megabytes:
                return self._lost(
                    worker, f"it used {used:,.0f} MB, the limit is {self._megabytes:,.0f} MB"
                )
        return None

    def _lost(self, worker: _Worker, reason: str) -> Answer:
        worker.pipe.close()
        worker.process.kill()
        worker.process.join(timeout=5)
        self._workers.remove(worker)
        return Answer(None, reason, worker.log)

    def _start(self) -> _Worker:
        context = worker_context()
        ours, theirs = context.Pipe()
        self._count += 1
        log = None if self._logs is None else self._logs / f"worker-{os.getpid()}-{self._count}.log"
        process = context.Process(
            target=_serve, args=(self._work, theirs, log, dict(os.environ)), daemon=True
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, log)


def _resident(pid: int | None) -> float:
    """Return the resident memory of a process in MB; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(_STATUS.format(pid)).read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1000
    return 0.0
