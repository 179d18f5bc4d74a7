"""A recorder that is killed, interrupted, or out of space leaves what it had recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaudit.errors import (
    ConfigurationError,
    CorruptRecordingError,
    OutputExistsError,
    PrivauditError,
    PrivauditWarning,
)
from privaudit.recording import BundleRecorder, read_recording, read_truth, verify
from privaudit.transcript import Party

PARTIES = (Party("u", "user"), Party("s", "server"))

CHILD = """
import os, sys, pathlib
import numpy as np
from privaudit.recording import BundleRecorder
from privaudit.transcript import Party
folder = pathlib.Path(sys.argv[1])
recorder = BundleRecorder(folder / "run", protocol="example", truth=folder / "truth")
recorder.declare([Party("u", "user"), Party("s", "server")])
for i in range(1_000_000):
    recorder.send(kind="update", sender="u", receiver="s", round=i, arrays={"g": np.arange(9) + i})
    recorder.keep_secret("u", "key", np.arange(3) + i)
    recorder.note_truth(f"record-{i}", image=np.arange(4) + i)
    print(i, flush=True)
    if sys.argv[2] == "exit" and i == 20:
        os._exit(7)
"""


def send(recorder: BundleRecorder, value: int = 0) -> None:
    recorder.send(kind="update", sender="u", receiver="s", arrays={"g": np.arange(100) + value})


def record(folder: Path, **options: Any) -> None:
    with BundleRecorder(folder, protocol="example", **options) as recorder:
        recorder.declare(PARTIES)
        send(recorder)
        recorder.finish({})


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_a_process_that_dies_leaves_every_message_it_had_sent(tmp_path: Path, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), end], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if end == "kill" and int(line) == 20:
                child.send_signal(signal.SIGKILL)
                break
        child.stdout.read()
    assert child.returncode == (7 if end == "exit" else -signal.SIGKILL)
    recording = read_recording(tmp_path / "run")
    messages = recording.transcript.messages
    assert len(messages) >= 21
    for message in messages:
        np.testing.assert_array_equal(message.arrays["g"], np.arange(9) + message.seq)
    assert not recording.complete
    assert recording.manifest.reason == "the recorder did not come to its end"
    assert {p.severity for p in verify(tmp_path / "run")} <= {"incomplete", "warning"}
    with pytest.warns(PrivauditWarning, match="not complete"):
        assert len(read_truth(tmp_path / "truth").targets) >= 21
    with pytest.raises(CorruptRecordingError, match="not complete"):
        read_recording(tmp_path / "run", tolerate_incomplete=False)


def interrupt_after_one_message(folder: Path) -> None:
    with BundleRecorder(folder, protocol="example") as recorder:
        recorder.declare(PARTIES)
        send(recorder)
        raise KeyboardInterrupt


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt_after_one_message(tmp_path)
    recording = read_recording(tmp_path)
    assert len(recording.transcript.messages) == 1
    (problem,) = recording.problems
    assert problem.severity == "incomplete"
    assert "interrupted (KeyboardInterrupt)" in problem.what
    assert verify(tmp_path) == (problem,)


def test_a_run_that_is_not_finished_is_not_complete(tmp_path: Path) -> None:
    with BundleRecorder(tmp_path, protocol="example") as recorder:
        recorder.declare(PARTIES)
    assert read_recording(tmp_path).manifest.reason == "closed before it was finished"


def test_a_recorder_that_dies_before_it_declares_leaves_a_readable_bundle(tmp_path: Path) -> None:
    BundleRecorder(tmp_path, protocol="example")
    recording = read_recording(tmp_path)
    assert recording.transcript.parties == ()
    assert not recording.complete


@pytest.mark.parametrize("written", [True, False])
def test_an_interruption_in_the_middle_of_a_message_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    recorder = BundleRecorder(tmp_path, protocol="example")
    recorder.declare(PARTIES)
    send(recorder)
    log = recorder._events
    append: Callable[[Any, bytes], None] = type(log).append

    def interrupted(self: Any, line: bytes) -> None:
        if written:
            append(self, line)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(log), "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        send(recorder, 1)
    monkeypatch.undo()
    with pytest.raises(PrivauditError, match="nothing can be added"):
        send(recorder, 2)
    recorder.__exit__(KeyboardInterrupt, None, None)
    assert len(read_recording(tmp_path).transcript.messages) == 1 + written
    assert {p.severity for p in verify(tmp_path)} <= {"incomplete", "warning"}


def test_nothing_is_recorded_after_the_end(tmp_path: Path) -> None:
    with BundleRecorder(tmp_path, protocol="example") as recorder:
        with pytest.raises(ConfigurationError, match="declare the parties"):
            recorder.finish({})
        recorder.declare(PARTIES)
        with pytest.raises(ConfigurationError, match="once"):
            recorder.declare(PARTIES)
        recorder.finish({})
        for late in (lambda: send(recorder), lambda: recorder.finish({})):
            with pytest.raises(ConfigurationError, match="has ended"):
                late()
    assert read_recording(tmp_path).complete


FULL_DISK = """
import pathlib, resource, sys
import numpy as np
from privaudit.errors import PrivauditError
from privaudit.recording import BundleRecorder
from privaudit.transcript import Party
folder, size, noise = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
try:
    with BundleRecorder(folder, protocol="example") as recorder:
        recorder.declare([Party("u", "user"), Party("s", "server")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        for i in range(1000):
            recorder.send(kind="update", sender="u", receiver="s",
                          arrays={"g": np.arange(1 + (i // 5) * noise)})
except PrivauditError as error:
    print(i, error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(("size", "noise"), [(3000, 0), (4000, 1000)], ids=["events", "blobs"])
def test_a_full_disk_is_an_error_that_names_the_file_and_loses_nothing(
    tmp_path: Path, size: int, noise: int
) -> None:
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(size), str(noise)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    count, message = done.stdout.strip().split(" ", 1)
    assert message.startswith(f"cannot write {tmp_path}/{'arrays/' if noise else 'events.jsonl'}")
    recording = read_recording(tmp_path)
    assert len(recording.transcript.messages) == int(count) > 0
    assert recording.manifest.reason == "interrupted (PrivauditError)"
    assert not list(tmp_path.rglob("*.tmp"))
    assert (tmp_path / "events.jsonl").read_bytes().endswith(b"\n")  # half a line was taken back
    assert {p.severity for p in verify(tmp_path)} <= {"incomplete", "warning"}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PrivauditError, match=r"cannot write .*file/run"):
        BundleRecorder(tmp_path / "file" / "run", protocol="example")
    with pytest.raises(OutputExistsError, match="is a file"):
        BundleRecorder(tmp_path / "file", protocol="example")


def test_an_earlier_recording_is_replaced_only_with_force(tmp_path: Path) -> None:
    run, truth = tmp_path / "run", tmp_path / "truth"
    record(run, truth=truth)
    with pytest.raises(OutputExistsError, match=r"run holds a recording already.*--force"):
        record(run, truth=tmp_path / "other")
    with pytest.raises(OutputExistsError, match=r"truth holds a recording already.*--force"):
        record(tmp_path / "other", truth=truth)
    record(run, truth=truth, force=True, settings={"seed": 2})
    assert read_recording(run).manifest.settings == {"seed": 2}
    assert verify(run) == verify(truth) == ()


def test_a_killed_recording_is_replaced_with_force(tmp_path: Path) -> None:
    recorder = BundleRecorder(tmp_path, protocol="example")
    recorder.declare(PARTIES)
    send(recorder)
    (tmp_path / "arrays" / f".{'0' * 64}.safetensors.tmp").write_bytes(b"half")
    (tmp_path / ".manifest.json.tmp").write_bytes(b"half")
    record(tmp_path, force=True)
    assert verify(tmp_path) == ()


@pytest.mark.parametrize(
    "foreign",
    ["thesis.tex", "arrays/thesis.tex", "arrays/sub/x", "events.jsonl/x", "manifest.json"],
)
def test_a_folder_that_is_no_recording_is_never_cleared(tmp_path: Path, foreign: str) -> None:
    run = tmp_path / "run"
    if foreign != "manifest.json":
        record(run)
    if foreign.startswith("events"):
        (run / "events.jsonl").unlink()
    path = run / foreign
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("years of work")
    before = sorted(run.rglob("*"))
    for force in (False, True):
        with pytest.raises(OutputExistsError, match=foreign.split("/")[0]) as caught:
            record(run, force=force)
        assert "not even with --force" in str(caught.value)
    assert sorted(run.rglob("*")) == before
    assert path.read_text() == "years of work"


def test_a_link_in_a_recording_is_not_followed_when_it_is_cleared(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    record(run)
    (run / "arrays").rename(outside)
    (run / "arrays").symlink_to(outside)
    with pytest.raises(OutputExistsError, match="not a folder"):
        record(run, force=True)
    assert len(list(outside.iterdir())) == 1


def test_nothing_is_cleared_when_the_truth_cannot_be_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record(run)
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "notes.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"notes\.txt"):
        record(run, truth=tmp_path / "truth", force=True)
    assert verify(run) == ()


def test_a_manifest_is_never_half_written(tmp_path: Path) -> None:
    with BundleRecorder(tmp_path, protocol="example") as recorder:
        recorder.declare(PARTIES)
        inode = os.stat(tmp_path / "manifest.json").st_ino
        with open(tmp_path / "manifest.json") as before:
            recorder.publish("prime", 97)
            assert json.load(before)["public"] == {}  # a reader of the old file is undisturbed
        assert os.stat(tmp_path / "manifest.json").st_ino != inode
        recorder.finish({})
