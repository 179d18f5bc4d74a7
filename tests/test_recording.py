"""What is written into a bundle is what is read from it, in equal bytes for equal runs."""

from __future__ import annotations

import json
import pickle
import re
import stat
import subprocess
import sys
import tracemalloc
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privaudit.errors import ConfigurationError, CorruptRecordingError
from privaudit.recording import (
    DEFAULT_LIMITS,
    BundleRecorder,
    Limits,
    Manifest,
    read_recording,
    read_truth,
    verify,
)
from privaudit.transcript import (
    Array,
    Capability,
    Coalition,
    MemoryRecorder,
    Party,
    Recorder,
    SpecifiedArrays,
)

PARTIES = (
    Party("user-1", "user"),
    Party("user-2", "user", "the second"),
    Party("server", "server"),
)
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    ">f4",
    ">i8",
]


def run(recorder: Recorder) -> None:
    """A small run that uses everything a recorder offers."""
    rng = np.random.default_rng(7)
    recorder.declare(PARTIES, facts=[Capability.SINGLE_LOCAL_STEP])
    recorder.publish("dimension", 6)
    recorder.publish("prime", np.array(97, np.uint64))
    for round in (1, 2):
        model: dict[str, Array] = {
            "weight": rng.normal(size=(2, 3)).astype(np.float32),
            "bias": np.zeros(2),
        }
        for user in ("user-1", "user-2"):
            recorder.send(kind="model", sender="server", receiver=user, round=round, arrays=model)
            recorder.send(
                kind="update",
                sender=user,
                receiver="server",
                round=round,
                arrays={"gradient": rng.normal(size=6)},
                meta={
                    "loss": float("nan"),
                    "tags": ["a", None, True],
                    "node": "18446744073709551615",
                },
            )
    recorder.send(kind="goodbye", sender="server", receiver="user-1")
    recorder.keep_secret("user-1", "permutation", rng.permutation(6))
    recorder.note_truth("user-1", image=rng.random((4, 4)), label=np.array(3))


def record(folder: Path, **options: Any) -> Path:
    with BundleRecorder(folder, protocol="example", **options) as recorder:
        run(recorder)
        recorder.finish({"status": "completed", "rounds": 2})
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_bundle_gives_the_same_transcript_and_truth_as_memory(tmp_path: Path) -> None:
    memory = MemoryRecorder()
    run(memory)
    expected = memory.transcript()
    recording = read_recording(record(tmp_path / "run", truth=tmp_path / "truth"))
    found = recording.transcript
    assert recording.problems == ()
    assert recording.complete
    assert recording.manifest.outcome == {"status": "completed", "rounds": 2}
    assert (found.parties, found.facts, found.public) == (
        expected.parties,
        expected.facts,
        expected.public,
    )
    assert len(found.messages) == len(expected.messages) == 9
    for ours, theirs in zip(found.messages, expected.messages, strict=True):
        assert (ours.seq, ours.round, ours.kind) == (theirs.seq, theirs.round, theirs.kind)
        assert (ours.sender, ours.receiver) == (theirs.sender, theirs.receiver)
        # By their text, because NaN is not equal to itself.
        assert repr(sorted(ours.meta.items())) == repr(sorted(theirs.meta.items()))
        assert (ours.specs, ours.nbytes) == (theirs.specs, theirs.nbytes)
        assert list(ours.arrays) == list(theirs.arrays)  # order is how tensors are flattened
        for name in theirs.arrays:
            np.testing.assert_array_equal(ours.arrays[name], theirs.arrays[name], strict=True)
    np.testing.assert_array_equal(
        found.public_arrays["prime"], np.array(97, np.uint64), strict=True
    )
    view = found.view(Coalition.of("user-1", capabilities=[Capability.SINGLE_LOCAL_STEP]))
    assert Capability.SINGLE_LOCAL_STEP in view.capabilities
    np.testing.assert_array_equal(
        view.secrets["user-1"]["permutation"], expected.secrets["user-1"]["permutation"]
    )
    truth = read_truth(tmp_path / "truth")
    for name in ("image", "label"):
        np.testing.assert_array_equal(
            truth.get("user-1", name), memory.truth().get("user-1", name), strict=True
        )


def test_two_recordings_of_the_same_run_are_the_same_bytes(tmp_path: Path) -> None:
    first = record(tmp_path / "a" / "run", truth=tmp_path / "a" / "truth")
    second = record(tmp_path / "elsewhere", truth=tmp_path / "truth")
    assert contents(first) == contents(second)
    assert contents(tmp_path / "a" / "truth") == contents(tmp_path / "truth")


def test_a_recording_names_neither_its_place_nor_its_time(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert str(tmp_path) not in (folder / "manifest.json").read_text()
    assert not {"time", "start", "end", "host", "user"} & set(manifest)
    assert all(
        json.loads(line)["t"] is None for line in (folder / "events.jsonl").read_text().splitlines()
    )


def test_a_broadcast_is_stored_once(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    # Two models to two users each, four gradients, one public array, one secret.
    assert len(list((folder / "arrays").iterdir())) == 2 + 4 + 1 + 1
    digests = [
        json.loads(line)["arrays"] for line in (folder / "events.jsonl").read_text().splitlines()
    ]
    assert digests[0] == digests[2] != digests[4]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])).filter(
                lambda k: not k.startswith("$")
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
any_array = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)


@settings(max_examples=60, deadline=None)
@given(
    arrays=st.dictionaries(
        st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20),
        any_array,
        max_size=3,
    ),
    meta=st.dictionaries(st.sampled_from(["a", "é", "z z"]), json_values, max_size=3),
    transpose=st.booleans(),
)
def test_every_array_and_meta_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    arrays: dict[str, Any],
    meta: dict[str, Any],
    transpose: bool,
) -> None:
    folder = tmp_path_factory.mktemp("bundle")
    sent = {name: a.T[::-1] if transpose and a.ndim else a for name, a in arrays.items()}
    with BundleRecorder(folder, protocol="example", settings=meta) as recorder:
        recorder.declare(PARTIES)
        recorder.send(kind="k", sender="user-1", receiver="server", arrays=sent, meta=meta)
        recorder.finish(meta)
    recording = read_recording(folder)
    (message,) = recording.transcript.messages
    assert message.meta == meta == recording.manifest.settings == recording.manifest.outcome
    assert list(message.arrays) == list(sent)
    for name, array in sent.items():
        found = message.arrays[name]
        assert found.dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found, array)
        assert found.shape == array.shape == message.specs[name].shape
        assert not found.flags.writeable
    assert {p.severity for p in verify(folder)} <= {"warning"}


def test_arrays_are_read_only_when_asked_for(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    recording = read_recording(folder)
    first, last = recording.transcript.messages[0], recording.transcript.messages[7]
    for blob in (folder / "arrays").iterdir():
        blob.unlink()
    assert isinstance(first.arrays, SpecifiedArrays)
    assert first.nbytes == 2 * 3 * 4 + 2 * 8
    assert first.specs["weight"].shape == (2, 3)
    with pytest.raises(CorruptRecordingError, match=r"message 7 \(update, user-2 to server\)"):
        last.arrays["gradient"]


def test_a_transcript_can_be_handed_to_another_process(tmp_path: Path) -> None:
    transcript = read_recording(record(tmp_path / "run")).transcript
    before = transcript.messages[1].arrays["gradient"]
    message = pickle.loads(pickle.dumps(transcript.messages[1]))
    np.testing.assert_array_equal(message.arrays["gradient"], before)


def test_times_and_errors_of_a_live_run_are_kept_beside_the_transcript(tmp_path: Path) -> None:
    with BundleRecorder(tmp_path, protocol="live", observer="server") as recorder:
        recorder.declare(PARTIES)
        recorder.send(kind="update", sender="user-1", receiver="server", t=1.5)
        recorder.send(kind="update", sender="user-2", receiver="server", t=2, error="timed out")
        recorder.finish({})
    recording = read_recording(tmp_path)
    assert recording.manifest.observer == "server"
    assert recording.times == {0: 1.5, 1: 2.0}
    assert recording.errors == {1: "timed out"}


def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def messages(recorder: BundleRecorder, count: int) -> None:
        for i in range(count):
            recorder.send(
                kind="update",
                sender="user-1",
                receiver="server",
                round=i,
                arrays={"gradient": rng.normal(size=100)},
            )
            recorder.keep_secret("user-1", f"key {i}", rng.normal(size=2))
            recorder.note_truth(f"record {i}", image=rng.normal(size=2))

    with BundleRecorder(tmp_path / "r", protocol="example", truth=tmp_path / "t") as recorder:
        recorder.declare(PARTIES)
        messages(recorder, 50)
        tracemalloc.start()
        try:
            messages(recorder, 50)
            before = tracemalloc.get_traced_memory()[0]
            messages(recorder, 400)
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        recorder.finish({})
    # 400 messages hold 320,000 bytes of gradients, and 400 digests alone would be 25,600.
    assert after - before < 20_000


def test_recording_needs_numpy_and_safetensors_only() -> None:
    code = (
        "import sys, privaudit.recording; "
        "print(sorted({m.split('.')[0] for m in sys.modules} "
        "& {'torch', 'scipy', 'pydantic', 'sklearn', 'typer', 'rich', 'jinja2', 'matplotlib'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_truth_is_for_its_owner_only(tmp_path: Path) -> None:
    (tmp_path / "truth").mkdir(mode=0o755)
    record(tmp_path / "run", truth=tmp_path / "truth")
    assert stat.S_IMODE((tmp_path / "truth").stat().st_mode) == 0o700
    assert verify(tmp_path / "truth") == ()


def test_no_truth_reaches_the_bundle(tmp_path: Path) -> None:
    secret_image = np.full((4, 4), 0.123456789)
    with BundleRecorder(tmp_path / "run", protocol="p", truth=tmp_path / "truth") as recorder:
        recorder.declare(PARTIES)
        recorder.note_truth("hidden-target", image=secret_image)
        recorder.finish({})
    everything = b"".join(contents(tmp_path / "run").values())
    assert secret_image.tobytes() not in everything
    assert b"hidden-target" not in everything
    assert secret_image.tobytes() in b"".join(contents(tmp_path / "truth").values())


@pytest.mark.parametrize("truth", ["run", "run/truth", "."])
def test_the_truth_must_lie_apart(tmp_path: Path, truth: str) -> None:
    with pytest.raises(ConfigurationError, match="must lie apart"):
        BundleRecorder(tmp_path / "run", protocol="p", truth=tmp_path / truth)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": ""}, "'kind' must not be empty"),
        ({"kind": "k" * 257}, "257 characters"),
        ({"kind": "\x1b[31m"}, "cannot be printed"),
        ({"receiver": "user-9"}, "not a declared party"),
        ({"round": -1}, "'round'"),
        ({"meta": {"$float": 1}}, "does not begin with"),
        ({"meta": {"x": {"y": object()}}}, r"meta\.x\.y: object is not JSON"),
        ({"meta": {"x": b"bytes"}}, "bytes is not JSON"),
        ({"meta": {"x": "\ud800"}}, "surrogate"),
        ({"meta": {"x": 1 << 20_000}}, "20001 bits"),
        ({"meta": {"x": "y" * 5_000_000}}, "belong in arrays"),
        ({"arrays": {"": np.zeros(1)}}, "name of array"),
        ({"arrays": {"__metadata__": np.zeros(1)}}, "reserved"),
        ({"arrays": {"x": np.array([object()])}}, "dtype object"),
        ({"arrays": {"x": np.zeros(1, np.longdouble)}}, "allowed are bool"),
    ],
)
def test_what_no_reader_would_accept_is_not_written(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    good: dict[str, Any] = {
        "kind": "k",
        "sender": "user-1",
        "receiver": "server",
        "arrays": {"gradient": np.zeros(3)},
    }
    with BundleRecorder(tmp_path, protocol="example") as recorder:
        recorder.declare(PARTIES)
        with pytest.raises(ConfigurationError, match=problem):
            recorder.send(**(good | change))
        assert list((tmp_path / "arrays").iterdir()) == []
        recorder.send(**good)
        recorder.finish({})
    recording = read_recording(tmp_path)
    assert [m.seq for m in recording.transcript.messages] == [0]
    assert recording.complete


def test_deep_meta_is_refused_in_writing(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with BundleRecorder(tmp_path, protocol="example") as recorder:
        recorder.declare(PARTIES)
        with pytest.raises(ConfigurationError, match="32 levels"):
            recorder.publish("deep", deep)


def test_the_guide_shows_how_to_write_a_bundle_without_privaudit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (Path(__file__).resolve().parents[1] / "docs" / "recording.md").read_text()
    (code,) = re.findall(r"```python\n(# Without privaudit.*?)```", guide, flags=re.DOTALL)
    assert "privaudit." not in code  # imports nothing of ours
    assert len([line for line in code.splitlines() if not line.startswith("#")]) <= 20
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    recording = read_recording(tmp_path / "by-hand")
    (message,) = recording.transcript.messages
    np.testing.assert_array_equal(message.arrays["gradient"], np.zeros((2, 3), np.float32))
    assert (message.round, message.sender, message.receiver) == (1, "user-1", "server")
    # Written by hand it carries no digest of its manifest; nothing else is amiss.
    (warning,) = verify(tmp_path / "by-hand")
    assert (warning.severity, warning.where) == ("warning", "'digest'")


def test_the_guide_lists_every_key_and_limit() -> None:
    guide = (Path(__file__).resolve().parents[1] / "docs" / "recording.md").read_text()
    for item in (*fields(Manifest), *fields(Limits)):
        assert f"`{item.name}`" in guide, item.name
    for item in fields(Limits):
        shown = re.search(rf"`{item.name}` \| ([0-9,]+) ", guide)
        assert shown is not None, item.name
        assert int(shown[1].replace(",", "")) == getattr(DEFAULT_LIMITS, item.name)
