"""Updates in a CSV file: a line a user, its id and then the values."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar

import numpy as np

from privaudit.errors import CorruptRecordingError
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.recording import ReadRun
from privaudit.transcript import MemoryRecorder, Party, Truth

__all__ = ["UpdatesReader"]

FIRST_LINE = b"# updates of one round\n"
#: A file comes from a stranger: nothing larger is read.
MOST_BYTES = 64 * 1024 * 1024


class UpdatesReader:
    """Updates of one round of federated averaging, as lines of 'user,value,value,...'."""

    name: ClassVar[str] = "example-updates"

    def recognises(self, path: Path) -> bool:
        """Tell by the first line."""
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(len(FIRST_LINE)) == FIRST_LINE

    def read(self, path: Path) -> ReadRun:
        """Read the file: everything in it is checked, and nothing in it is run."""
        if path.stat().st_size > MOST_BYTES:
            raise CorruptRecordingError(f"{path}: larger than {MOST_BYTES} bytes")
        content = path.read_bytes()
        users: dict[str, np.ndarray] = {}
        try:
            lines = content.decode("ascii").splitlines()
            for number, line in enumerate(lines[1:], start=2):
                user, *values = line.split(",")
                if not user or user == SERVER or user in users or not values:
                    raise ValueError(f"line {number} is not 'user,value,...' of another user")
                users[user] = np.array([float(value) for value in values], dtype=np.float32)
            if len({len(update) for update in users.values()}) != 1:
                raise ValueError("updates must be there and of one length")
        except ValueError as error:
            raise CorruptRecordingError(f"{path}: {error}") from error
        recorder = MemoryRecorder()
        recorder.declare([*(Party(user, "user") for user in users), Party(SERVER, "server")])
        for user, update in users.items():
            recorder.send(
                round=1, kind=UPDATE, sender=user, receiver=SERVER, arrays={"values": update}
            )
        digest = hashlib.sha256(content).hexdigest()
        return ReadRun(recorder.transcript(), protocol="fedavg", digest=digest)

    def truth(self, path: Path) -> Truth | None:
        """Return None: such a file holds no truth."""
        return None
