"""The results of a campaign in one SQLite file, written by one process."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from privaudit.campaigns.folders import CAMPAIGN
from privaudit.campaigns.grid.specification import CellSpec
from privaudit.campaigns.measurements import measurement_from_json
from privaudit.errors import ConfigurationError, OutputExistsError

__all__ = ["FILE", "SCHEMA", "Row", "StorageError", "Store"]

FILE: Final = CAMPAIGN
SCHEMA: Final = "privaudit-campaign/1"
STATES: Final = ("pending", "measured", "not-applicable", "failed")

#: What SQLite says of the disk, of rights and of other processes; all else is about the content.
_OUTSIDE: Final = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    )
)

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    specification TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    result TEXT,
    seconds REAL,
    log TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT ''
);
"""


class StorageError(ConfigurationError):
    """Results cannot be stored any more: what is finished is kept, and the same command resumes."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One cell as it is stored.

    Attributes
    ----------
    status : {"pending", "measured", "not-applicable", "failed"}
    result : mapping or None
        As :func:`privaudit.campaigns.grid.specification.execute` returns it, without the seconds.
    seconds : float or None
        How long it took. This and the next are all that differs from run to run.
    log : str
        Path of what its worker wrote to standard error, if it failed and that is kept.
    note : str
        What is wrong with the recording that it was measured on; empty if nothing is.
    """

    key: str
    specification: CellSpec
    status: str
    reason: str
    result: Mapping[str, Any] | None
    seconds: float | None
    log: str = ""
    note: str = ""


class Store:
    """The cells of a campaign and their results.

    Every finished cell is committed at once, so that a crash loses at most the cells in work.

    Parameters
    ----------
    folder : Path
        Of the campaign.
    readonly : bool
        Open what is there, for reading; the folder may be on a medium that cannot be written to.

    Raises
    ------
    ConfigurationError
        If the file is damaged, cannot be opened, is no campaign's, or is of another schema version.
    """

    def __init__(self, folder: Path, *, readonly: bool = False) -> None:
        self.file = folder / FILE
        if readonly and not self.file.is_file():
            raise ConfigurationError(
                f"{folder} holds no campaign ({FILE}); make one with privaudit run CAMPAIGN.toml "
                f"-o {folder}"
            )
        self._readonly = readonly
        self._check_begun()
        with self._told():
            # Results go through one process; readers may look at any time.
            self._connection = self._opened("?mode=ro" if readonly else "")
            if readonly:
                self._connection = self._readable()
            else:
                begun = "SELECT 1 FROM sqlite_master WHERE name = 'facts'"
                if self._connection.execute(begun).fetchone():
                    # If it is damaged, that shows here, and it is left as it is.
                    self._fact("schema")
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.executescript(_TABLES)
            found = self._fact("schema")
            if found is None and not readonly:
                self._set_fact("schema", SCHEMA)
            elif found != SCHEMA:
                raise ConfigurationError(
                    f"{self.file} is of schema {found!r}; this version reads {SCHEMA!r}: read it "
                    "with the version that wrote it, or run the campaign into another folder"
                )
            columns = {row[1] for row in self._connection.execute("PRAGMA table_info(cells)")}
            for name in () if readonly else ("log", "note"):
                if name not in columns:
                    # Folders of before logs or notes were stored.
                    self._connection.execute(
                        f"ALTER TABLE cells ADD COLUMN {name} TEXT NOT NULL DEFAULT ''"
                    )
                    columns.add(name)
            self._texts = ", ".join(n if n in columns else "''" for n in ("log", "note"))

    def _check_begun(self) -> None:
        """Refuse an empty file, unless a process was killed before it wrote anything there."""
        if not self.file.is_file() or self.file.stat().st_size:
            return
        # The configuration is written after the first cells are.
        if self._readonly or (self.file.parent / "campaign.json").exists():
            raise ConfigurationError(
                f"{self.file} is empty (0 bytes): put back a copy, or delete it and run the "
                "campaign again, which measures every cell anew"
            )

    def _opened(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.file.resolve().as_uri()}{mode}", uri=True, isolation_level=None, timeout=30
        )

    def _readable(self) -> sqlite3.Connection:
        """Return a connection that can read, also where SQLite cannot make files beside the file.

        A file in write-ahead mode cannot be read without them, unless nobody can change it.
        """
        try:
            self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if _cause(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            log = self.file.with_name(f"{FILE}-wal")
            if log.is_file() and log.stat().st_size:
                raise ConfigurationError(
                    f"{self.file} cannot be read in place: {log.name} holds results of a campaign "
                    "that did not end, and the folder cannot be written to; copy the folder to "
                    "where it can, and read it there"
                ) from error
            self._connection.close()
            return self._opened("?mode=ro&immutable=1")
        return self._connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite says into an error that names the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if _cause(error) not in _OUTSIDE:
                raise self._damaged(str(error)) from error
            full = _cause(error) == sqlite3.SQLITE_FULL
            raise (StorageError if full else ConfigurationError)(
                f"{self.file}: {error}; if the disk is full or read-only, free it and run the same "
                "command again: finished cells are kept"
            ) from error
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.file} is damaged ({what}): put back a copy, or move it away and run the "
            "campaign again, which measures every cell anew"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._readonly:
            # One plain file is left, which can be archived and read anywhere. Where somebody reads
            # just now, or the disk is full, it stays in write-ahead mode.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    def _fact(self, name: str) -> str | None:
        found = self._connection.execute(
            "SELECT value FROM facts WHERE name = ?", (name,)
        ).fetchone()
        return None if found is None else str(found[0])

    def _set_fact(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def configuration(self) -> dict[str, Any]:
        """Return the resolved configuration that was last run into this folder."""
        with self._told():
            text = self._fact("configuration")
        try:
            return {} if text is None else dict(json.loads(text))
        except (TypeError, ValueError) as error:
            raise self._damaged(f"the campaign's configuration is not JSON: {error}") from error

    def plan(self, configuration: Mapping[str, Any], cells: Sequence[CellSpec]) -> None:
        """Enter the cells of a campaign; those that are there already keep their results.

        Raises
        ------
        OutputExistsError
            If the folder holds a campaign of another name.
        """
        before = self.configuration()
        if before and before.get("name") != configuration.get("name"):
            raise OutputExistsError(
                f"{self.file.parent} holds the campaign '{before.get('name')}'; name another "
                "folder with -o"
            )
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._set_fact("configuration", json.dumps(configuration, sort_keys=True))
                # What a changed campaign no longer wants stays, behind all that it does.
                self._connection.execute("UPDATE cells SET position = -1")
                self._connection.executemany(
                    "INSERT INTO cells (key, position, specification, status) "
                    "VALUES (?, ?, ?, 'pending') "
                    "ON CONFLICT (key) DO UPDATE SET position = excluded.position",
                    [
                        (c.key(), position, json.dumps(c.to_json(), sort_keys=True))
                        for position, c in enumerate(cells)
                    ],
                )
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def finish(self, key: str, result: Mapping[str, Any]) -> None:
        """Store the result of a cell."""
        kept = {k: v for k, v in result.items() if k not in ("seconds", "log", "note")}
        with self._told():
            self._connection.execute(
                "UPDATE cells SET status = ?, reason = ?, result = ?, seconds = ?, log = ?, "
                "note = ? WHERE key = ?",
                (
                    result["status"],
                    result["reason"],
                    json.dumps(kept, sort_keys=True, allow_nan=False),
                    result["seconds"],
                    result.get("log", "") if result["status"] == "failed" else "",
                    result.get("note", ""),
                    key,
                ),
            )

    def rows(self, *, status: str | None = None) -> tuple[Row, ...]:
        """Return the campaign's cells in the order planned; ``None`` does not restrict.

        Raises
        ------
        ConfigurationError
            If a cell is damaged; it is named.
        """
        query = (
            f"SELECT key, specification, status, reason, result, seconds, {self._texts} FROM cells "
            "WHERE position >= 0 AND (? IS NULL OR status = ?) ORDER BY position"
        )
        with self._told():
            found = self._connection.execute(query, (status, status)).fetchall()
        return tuple(self._row(*columns) for columns in found)

    def _row(
        self,
        key: str,
        specification: str,
        state: str,
        reason: str,
        result: str | None,
        seconds: float | None,
        log: str,
        note: str,
    ) -> Row:
        """Read a cell, whose content may have come to harm or from a stranger."""
        column = "status"
        try:
            if state not in STATES:
                raise ValueError(f"{state!r} is none of {', '.join(STATES)}")
            column = "seconds"
            if not isinstance(seconds, int | float | None):
                raise TypeError(f"{seconds!r} is no number")
            column = "specification"
            spec = CellSpec.from_json(json.loads(specification))
            _ = [spec.run[k] for k in ("protocol", "seed")]
            for part in (spec.run["parameters"], spec.run["federation"], spec.options):
                part.keys()
            column = "result"
            read = None if result is None else json.loads(result)
            if state == "measured":
                if read is None:
                    raise ValueError("there is none")
                measurement_from_json({**read, "seconds": 0.0})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
            raise self._damaged(f"{column} of cell {str(key)[:12]} {what}") from error
        return Row(key, spec, state, reason, read, seconds, log, note)

    def seconds_by_attack(self) -> dict[str, float]:
        """Return the mean time of measured cells, by attack."""
        times: dict[str, list[float]] = {}
        for row in self.rows(status="measured"):
            if row.seconds is not None:
                times.setdefault(row.specification.attack, []).append(row.seconds)
        return {attack: sum(t) / len(t) for attack, t in times.items()}


def _cause(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary code of an error; None if it is the binding's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
