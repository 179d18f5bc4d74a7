"""Where cells are measured: processes of this machine, or workers of a dask cluster."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from privaudit.campaigns.grid.pool import Pool
from privaudit.campaigns.grid.specification import CellSpec, execute
from privaudit.errors import ConfigurationError, PluginError

__all__ = ["DaskEngine", "Engine", "PoolEngine", "Task", "answers"]

#: Cells that are handed to a dask scheduler at a time.
BATCH = 500

#: Parts of dask that tell of what its own end brings about, cells given up among them.
_TALKING: Final = (
    "distributed.client",
    "distributed.nanny",
    "distributed.scheduler",
    "distributed.worker",
    "tornado.application",
)

#: A key, and the cell that it stands for.
Task = tuple[str, CellSpec]


class Engine(Protocol):
    """Measures cells in some order and yields each result as it is there.

    A result may have a ``log``: the path of what its worker wrote to standard error.
    """

    def run(
        self, tasks: Sequence[Task], *, runs: Path, data_root: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield key and result of every task, a cell that failed among them with its reason."""
        ...


def _failed(reason: str, seconds: float = 0.0) -> dict[str, Any]:
    return {
        "status": "failed",
        "reason": reason,
        "triples": [],
        "diagnostics": {},
        "seconds": seconds,
    }


@dataclass(frozen=True, slots=True)
class PoolEngine:
    """Processes of their own with one thread each.

    Attributes
    ----------
    jobs : int
        Processes.
    seconds : float or None
        Time limit of a cell, with which its process is ended.
    megabytes : float or None
        Limit of a worker's resident memory.
    logs : Path or None
        Folder for what workers write to standard error, one file a worker.
    """

    jobs: int = 2
    seconds: float | None = None
    megabytes: float | None = None
    logs: Path | None = None

    def run(
        self, tasks: Sequence[Task], *, runs: Path, data_root: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield results; a cell whose worker dies, or is ended by a limit, is a failed one."""
        work = partial(execute, runs=runs, data_root=data_root)
        with Pool(
            work, jobs=self.jobs, seconds=self.seconds, megabytes=self.megabytes, logs=self.logs
        ) as pool:
            for key, answer in pool.results((key, spec.to_json()) for key, spec in tasks):
                result = _failed(answer.reason) if answer.result is None else answer.result
                yield key, {**result, "log": "" if answer.log is None else str(answer.log)}


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Workers of ``dask.distributed`` (extra ``dask``).

    Attributes
    ----------
    address : str
        ``host:port`` of a scheduler, the path of a scheduler file, or empty for a local cluster.
    jobs : int
        Processes of a local cluster.
    retries : int
        How often a cell is tried again if its worker is lost.
    """

    address: str = ""
    jobs: int = 2
    retries: int = 3

    def run(
        self, tasks: Sequence[Task], *, runs: Path, data_root: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield results; workers find the runs under the same path, or make them again there."""
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise PluginError(
                "the dask engine needs dask.distributed: pip install 'privaudit[dask]'"
            ) from error
        work = partial(execute, runs=runs, data_root=data_root)
        with self._client() as client:
            yield from answers(client, work, tasks, retries=self.retries)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        from distributed import Client, LocalCluster

        try:
            if not self.address:
                with _levels_kept(), ExitStack() as stack:
                    with _interrupts_ignored():
                        cluster = stack.enter_context(
                            LocalCluster(
                                n_workers=self.jobs,
                                threads_per_worker=1,
                                processes=True,
                                # Any free port: other clusters may be on this machine.
                                dashboard_address="127.0.0.1:0",
                            )
                        )
                    client = stack.enter_context(Client(cluster))
                    client.run(_cancelled_in_silence)
                    try:
                        yield client
                    finally:
                        # What a cluster says while it is taken down, worker by worker, is of no
                        # use; before, it may be (a worker that is out of memory).
                        for name in _TALKING:
                            logging.getLogger(name).setLevel(logging.CRITICAL)
                return
            file = Path(self.address)
            where: Mapping[str, Any] = (
                {"scheduler_file": str(file)} if file.is_file() else {"address": self.address}
            )
            with Client(**where, timeout="30s") as client:
                yield client
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"no dask scheduler at '{self.address}' ({error}); give host:port or the path of "
                "its scheduler file"
            ) from error


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let processes that are started here ignore Ctrl-C, which a terminal sends to all of a group.

    They are ended by the one that started them, and would else each print what it interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        # Handlers are set in the main thread alone.
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cancelled_in_silence() -> None:
    """In a worker: do not warn of cells that an interruption cancelled."""
    logging.getLogger("distributed.worker.state_machine").setLevel(logging.ERROR)


@contextmanager
def _levels_kept() -> Iterator[None]:
    """Restore how much dask's parts log in this process."""
    before = {name: logging.getLogger(name).level for name in _TALKING}
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def answers(
    client: Any,
    work: Callable[[dict[str, Any]], dict[str, Any]],
    tasks: Sequence[Task],
    *,
    retries: int,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield key and result of every task as a dask worker has it; an exception is a failed cell."""
    from distributed import as_completed

    if not tasks:
        return
    # In batches, because a graph is serialised a call: alone, each of them would cost as much.
    futures = client.map(
        work,
        [spec.to_json() for _, spec in tasks],
        key=[f"privaudit-{key}" for key, _ in tasks],
        batch_size=BATCH,
        retries=retries,
    )
    waiting = dict(zip(futures, (key for key, _ in tasks), strict=True))
    del futures
    # With their results, because to fetch each alone would be a round trip a cell.
    for future, result in as_completed(list(waiting), with_results=True, raise_errors=False):
        if isinstance(result, BaseException):
            raise ConfigurationError(
                f"the dask scheduler gave up {len(waiting)} cells ({_told(result)}); nothing that "
                "is done is lost, and the same command resumes"
            )
        key = waiting.pop(future)
        yield key, _failed(_told(result[1])) if future.status == "error" else result
        future.release()


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
