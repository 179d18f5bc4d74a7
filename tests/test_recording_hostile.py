"""Bundles that were damaged, or made to do harm, are refused with the place and the reason."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from privaudit.errors import ConfigurationError, CorruptRecordingError
from privaudit.recording import BundleRecorder, Limits, Problem, read_recording, read_truth, verify
from privaudit.transcript import Party

Edit = Callable[[list[dict[str, Any]]], object]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path)


def make_bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    with BundleRecorder(folder, protocol="example", truth=tmp_path / "truth") as recorder:
        recorder.declare([Party("u", "user"), Party("s", "server")])
        recorder.publish("model", np.ones(2))
        for i in range(3):
            recorder.send(
                kind="update", sender="u", receiver="s", round=i, arrays={"g": np.arange(2) + i}
            )
        recorder.keep_secret("u", "key", np.arange(4))
        recorder.note_truth("u", image=np.zeros((2, 2)))
        recorder.finish({"status": "completed"})
    assert verify(folder) == ()
    return folder


def reseal(folder: Path, edit: Edit | None = None, **manifest: Any) -> None:
    """Change a bundle as one who knows the format does: every digest is right again."""
    path = folder / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    if edit is not None:
        edit(events)
    prev, lines = "0" * 64, []
    for event in events:
        lines.append(json.dumps(event | {"prev": prev}))
        prev = hashlib.sha256(lines[-1].encode()).hexdigest()
    path.write_text("".join(line + "\n" for line in lines))
    content = json.loads((folder / "manifest.json").read_text())
    content |= {"n_events": len(lines), "head_hash": prev, "digest": None} | manifest
    (folder / "manifest.json").write_text(json.dumps(content))


def put_blob(folder: Path, data: bytes, specs: Any, *, suffix: str = ".safetensors") -> None:
    """Make the second message refer to the bytes of a stranger, under their true digest."""
    digest = hashlib.sha256(data).hexdigest()
    (folder / "arrays" / (digest + suffix)).write_bytes(data)
    reseal(folder, lambda events: events[1].update(arrays=digest, specs=specs))


def corrupt(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems if problem.severity == "corrupt"]


def read_everything(folder: Path, limits: Limits) -> None:
    for message in read_recording(folder, limits=limits).transcript.messages:
        dict(message.arrays)


def refused(folder: Path, match: str, **limits: int) -> None:
    """Assert that both the reader and the verifier refuse a bundle, for the given reason."""
    bounds = Limits(**limits)
    with pytest.raises(CorruptRecordingError, match=match):
        read_everything(folder, bounds)
    found = corrupt(verify(folder, limits=bounds))
    assert any(re.search(match, problem) for problem in found), found


# Damage


def test_every_flipped_byte_of_the_manifest_is_found(bundle: Path) -> None:
    path = bundle / "manifest.json"
    raw = path.read_bytes()
    for i in range(len(raw)):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
        assert corrupt(verify(bundle)), f"byte {i}"


def test_every_flipped_byte_of_an_event_is_found_and_its_line_named(bundle: Path) -> None:
    path = bundle / "events.jsonl"
    raw = path.read_bytes()
    for i in range(len(raw) - 1):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
        line = raw[:i].count(b"\n") + 1
        found = corrupt(verify(bundle))
        # A flipped `prev` accuses the line before: which of the two was changed is not known.
        named = {f"line {line}", f"line {line - 1}"}
        assert found, f"byte {i}"
        assert any(name in problem for name in named for problem in found[:1]), (i, found)
        with pytest.raises(CorruptRecordingError, match=r"events\.jsonl"):
            read_recording(bundle)


def test_every_flipped_byte_of_a_blob_is_found_and_its_message_named(bundle: Path) -> None:
    digest = json.loads((bundle / "events.jsonl").read_text().splitlines()[1])["arrays"]
    path = bundle / "arrays" / f"{digest}.safetensors"
    raw = path.read_bytes()
    for i in range(len(raw)):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
        (problem,) = verify(bundle)
        assert problem.severity == "corrupt"
        assert "line 2, message 1 (update, u to s)" in problem.where
        message = read_recording(bundle).transcript.messages[1]
        with pytest.raises(CorruptRecordingError, match=r"message 1 .*was changed"):
            message.arrays["g"]


@pytest.mark.parametrize("file", ["secrets.jsonl", "truth/targets.jsonl"])
def test_every_flipped_byte_of_secrets_and_truth_is_found(bundle: Path, file: str) -> None:
    folder = bundle.parent / "truth" if file.startswith("truth") else bundle
    path = folder / Path(file).name
    raw = path.read_bytes()
    for i in range(len(raw)):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
        assert corrupt(verify(folder)), f"byte {i}"
        with pytest.raises(CorruptRecordingError, match=path.name):
            read_truth(folder) if folder != bundle else read_recording(folder)


def test_a_last_line_cut_at_any_byte_is_left_out_and_reported(bundle: Path) -> None:
    path = bundle / "events.jsonl"
    raw = path.read_bytes()
    start = raw[:-1].rindex(b"\n") + 1
    for end in range(start + 1, len(raw) - 1):
        path.write_bytes(raw[:end])
        recording = read_recording(bundle)
        assert len(recording.transcript.messages) == 2
        assert not recording.complete
        (cut, *rest) = verify(bundle)
        assert (cut.severity, cut.where) == ("incomplete", "line 3")
        assert [problem.severity for problem in rest] == ["warning"]  # the blob of the lost line
        with pytest.raises(CorruptRecordingError, match="was cut"):
            read_recording(bundle, tolerate_incomplete=False)
    path.write_bytes(raw[:-1])  # nothing but the newline is missing
    assert len(read_recording(bundle).transcript.messages) == 3
    assert [problem.severity for problem in verify(bundle)] == ["warning"]
    path.write_bytes(raw[:start])  # a whole line is missing: that is no cut
    refused(bundle, "has 2 lines, the manifest says 3")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda lines: [lines[0], lines[2]], "'seq' is 2, must be 1"),
        (lambda lines: [lines[1], lines[0], lines[2]], "'seq' is 1, must be 0"),
        (lambda lines: [lines[0], lines[1][:40], lines[2]], "line 2: not JSON"),
        (lambda lines: [lines[0], b"", lines[1], lines[2]], "line 2: not JSON"),
        (lambda lines: [*lines, lines[2]], "'seq' is 2, must be 3"),
        (lambda lines: [lines[0], lines[1].replace(b"u", b"s", 1), lines[2]], "line 2"),
        (lambda lines: [*lines[:2], lines[2].replace(b'"round":2', b'"round":3')], "'head_hash'"),
    ],
)
def test_lines_that_were_moved_lost_or_changed_are_named(
    bundle: Path, change: Callable[[list[bytes]], list[bytes]], match: str
) -> None:
    path = bundle / "events.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))
    refused(bundle, match)


def test_a_missing_blob_is_named_with_its_message(bundle: Path) -> None:
    digest = json.loads((bundle / "events.jsonl").read_text().splitlines()[2])["arrays"]
    (bundle / "arrays" / f"{digest}.safetensors").unlink()
    refused(bundle, rf"line 3, message 2 \(update, u to s\): its arrays are missing: no {digest}")


@pytest.mark.parametrize("file", ["manifest.json", "events.jsonl", "secrets.jsonl"])
def test_a_missing_file_is_named(bundle: Path, file: str) -> None:
    (bundle / file).unlink()
    refused(bundle, f"{file}: is missing")


def test_all_problems_are_found_at_once(bundle: Path) -> None:
    lines = (bundle / "events.jsonl").read_text().splitlines()
    (bundle / "arrays" / f"{json.loads(lines[0])['arrays']}.safetensors").unlink()
    (bundle / "arrays" / "notes.txt").write_text("hello")
    (bundle / "secrets.jsonl").write_text("{}\n")
    (bundle / "events.jsonl").write_text("\n".join([lines[0], "x", lines[2]]) + "\n")
    found = verify(bundle)
    assert {problem.file for problem in found} >= {
        "events.jsonl",
        "secrets.jsonl",
        "arrays/notes.txt",
    }
    assert [p.where.split(",")[0] for p in found if p.file == "events.jsonl"] == [
        "line 1",
        "line 2",
        "line 2",
    ]


def test_a_broken_manifest_does_not_hide_the_other_problems(bundle: Path) -> None:
    (bundle / "manifest.json").write_text("{")
    path = bundle / "events.jsonl"
    path.write_text(path.read_text().replace('"round":1', '"round":-1'))
    (bundle / "secrets.jsonl").write_text("x\n")
    assert [p.file for p in verify(bundle)] == [
        "manifest.json",
        "events.jsonl",
        "events.jsonl",
        "secrets.jsonl",
    ]


def test_values_that_are_not_finite_are_warned_of(bundle: Path) -> None:
    array = np.array([1.0, np.nan, np.inf])
    put_blob(bundle, save({"g": array}), {"g": ["float64", [3]]})
    (warning,) = [p for p in verify(bundle) if "not finite" in p.what]
    assert warning.severity == "warning"
    assert "message 1 (update, u to s)" in warning.where
    assert warning.what == "2 of 3 values of array 'g' are not finite"
    np.testing.assert_array_equal(read_recording(bundle).transcript.messages[1].arrays["g"], array)


def test_a_file_that_nothing_refers_to_is_warned_of(bundle: Path) -> None:
    (bundle / "arrays" / "evil\x1b[2J.txt").write_text("?")
    (problem,) = verify(bundle)
    assert (problem.severity, problem.file) == ("warning", r"arrays/'evil\x1b[2J.txt'")


# Hostility: the digests are right


HOSTILE_DIGESTS = [
    "../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "A" * 64,
    "a" * 63,
    "a" * 64 + "\n",
    "a" * 64 + "\0",
    "../" + "a" * 61,
    "",
    5,
    ["a" * 64],
    True,
]


@pytest.mark.parametrize("digest", HOSTILE_DIGESTS)
def test_a_digest_is_never_a_path(bundle: Path, digest: Any) -> None:
    reseal(bundle, lambda events: events[1].update(arrays=digest))
    refused(bundle, "line 2: 'arrays' must be 64 lower-case hexadecimal digits")


@pytest.mark.parametrize("digest", HOSTILE_DIGESTS)
@pytest.mark.parametrize("file", ["secrets.jsonl", "manifest.json", "targets.jsonl"])
def test_a_digest_is_never_a_path_elsewhere_either(bundle: Path, digest: Any, file: str) -> None:
    folder = bundle.parent / "truth" if file == "targets.jsonl" else bundle
    reference = {"arrays": digest, "spec": ["float64", [2]]}
    if file == "manifest.json":
        reseal(bundle, public_arrays={"model": reference})
    else:
        owner = "party" if file == "secrets.jsonl" else "target"
        (folder / file).write_text(json.dumps({owner: "u", "name": "key", **reference}) + "\n")
        manifest = json.loads((folder / "manifest.json").read_text())
        key = "secrets" if file == "secrets.jsonl" else "targets"
        (folder / "manifest.json").write_text(json.dumps(manifest | {"digest": None, key: None}))
    with pytest.raises(CorruptRecordingError, match="must be 64 lower-case hexadecimal digits"):
        read_recording(folder) if folder == bundle else read_truth(folder)
    assert corrupt(verify(folder))


@pytest.mark.parametrize(
    "file", ["manifest.json", "events.jsonl", "secrets.jsonl", "arrays", "blob"]
)
@pytest.mark.parametrize("target", ["link", "pipe"])
def test_links_and_pipes_are_not_read(bundle: Path, file: str, target: str) -> None:
    path = bundle / file if file != "blob" else sorted((bundle / "arrays").iterdir())[0]
    outside = bundle.parent / "outside"
    path.rename(outside)
    if target == "link":
        path.symlink_to(outside)
    else:
        os.mkfifo(path)
    with pytest.raises(CorruptRecordingError, match="link"):
        read_recording(bundle)
    assert any("link" in problem for problem in corrupt(verify(bundle)))


HUGE = 10**9


@pytest.mark.parametrize(
    ("specs", "match"),
    [
        ({"g": ["int64", [HUGE]]}, "declares arrays of 8000000000 bytes; the limit is"),
        ({"g": ["int64", [2**62, 2**62]]}, "the limit is"),
        ({"g": ["int64", [0, HUGE, HUGE]]}, "the limit is"),
        ({"g": ["int8", [HUGE]]}, r"has \d+ bytes, but arrays of 1000000000 bytes are declared"),
        ({"g": ["int64", [-1]]}, "non-negative"),
        ({"g": ["int64", [2.0]]}, "non-negative"),
        ({"g": ["int64", [True]]}, "non-negative"),
        ({"g": ["int64", [1] * 33]}, "at most 32"),
        ({"g": ["int64", "2"]}, "shape"),
        ({"g": ["object", [2]]}, "allowed are bool"),
        ({"g": ["<i8", [2]]}, "allowed are bool"),
        ({"g": [["int64"], [2]]}, "allowed are bool"),
        ({"g": "int64"}, "must be"),
        ({"g": ["int32", [4]]}, "declared is int32"),
        ({"h": ["int64", [2]]}, r"declared are \['h'\]"),
        ({}, "names no arrays"),
        (None, "'specs'"),
    ],
)
def test_declared_sizes_are_bounded_before_anything_is_read(
    bundle: Path, specs: Any, match: str
) -> None:
    reseal(bundle, lambda events: events[1].update(specs=specs))
    tracemalloc.start()
    try:
        refused(bundle, match)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def safetensors(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str, shape: Any, start: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (safetensors({"g": entry("I64", [HUGE], 0, 8 * HUGE)}, bytes(16)), "declared is int64"),
        (safetensors({"g": entry("I64", [2], 0, 8 * HUGE)}, bytes(16)), "outside the file"),
        (safetensors({"g": entry("I64", [2], 8, 24)}, bytes(16)), "outside the file"),
        (safetensors({"g": entry("I64", [2], -8, 8)}, bytes(16)), "outside the file"),
        (safetensors({"g": entry("I64", [2], 8, 24)}, bytes(24)), "sound safetensors"),
        (safetensors({"g": entry("I64", [2], 0, 16)}, bytes(24)), "sound safetensors"),
        (safetensors({"g": entry("F64", [2], 0, 16)}, bytes(16)), "declared is int64"),
        (safetensors({"g": entry("BF16", [8], 0, 16)}, bytes(16)), "declared is int64"),
        (safetensors({"g": entry("I64", [2], 0, 16)}, bytes(16), length=2**63), "a header of"),
        (safetensors(b'{"g":1,"g":2}', bytes(16)), "twice"),
        (safetensors(b"[" * 100_000, bytes(16)), "deep"),
        (safetensors([], bytes(16)), "not an object"),
        (safetensors({"g": 5}, bytes(16)), "JSON object"),
        (safetensors({"g": entry("I64", [2], 0, 16) | {"x": 1}}, bytes(16)), "unknown key 'x'"),
        (safetensors({}, bytes(16)), "holds arrays"),
        (b"PK\x03\x04" + bytes(40), "a header of"),
        (b"\x80\x04K\x05." + bytes(40), "a header of"),
    ],
)
def test_the_header_of_a_blob_must_be_what_its_message_declares(
    bundle: Path, data: bytes, match: str
) -> None:
    put_blob(bundle, data, {"g": ["int64", [2]]})
    refused(bundle, match)


def test_booleans_are_zero_or_one(bundle: Path) -> None:
    put_blob(bundle, safetensors({"g": entry("BOOL", [2], 0, 2)}, b"\1\2"), {"g": ["bool", [2]]})
    refused(bundle, "other than 0 and 1")


def test_two_messages_cannot_declare_one_blob_differently(bundle: Path) -> None:
    def edit(events: list[dict[str, Any]]) -> None:
        events[1] = events[0] | {"seq": 1, "specs": {"g": ["int32", [4]]}}

    reseal(bundle, edit)
    refused(bundle, "declared is int32|declares other arrays")


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_blobs_of_others_may_be_npz(bundle: Path) -> None:
    arrays = {"g": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "z": np.array(True)}
    put_blob(bundle, npz(**arrays), {"g": ["float64", [2, 3]], "z": ["bool", []]}, suffix=".npz")
    found = read_recording(bundle).transcript.messages[1].arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
        assert not found[name].flags.writeable
    assert corrupt(verify(bundle)) == []


def raw_zip(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def npy(array: Any, *, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (npz(g=np.array([{"a": 1}, None], object)), "Python objects"),
        (npz(g=np.zeros(4_000_000, np.int8)), "unpacks to 4000128 bytes, not 16"),
        (npz(g=np.zeros(2, ">i8")), "declared is <i8"),
        (npz(g=np.zeros(2, np.int64), h=np.zeros(1)), "holds 2 arrays"),
        (npz(h=np.zeros(2, np.int64)), "declared are"),
        (raw_zip("g.npy", npy(np.zeros(2, np.int64)) + b"more"), "followed by more"),
        (raw_zip("g.npy", npy(np.zeros(2, np.int64))[:-1]), "sound"),
        (raw_zip("g.npy", b"\x80\x04K\x05."), "sound"),
        (raw_zip("g.npy", npy(np.zeros(2, np.int64)), zipfile.ZIP_LZMA), "other than deflate"),
        (raw_zip("../g.npy", npy(np.zeros(2, np.int64))), "declared are"),
        (npz(g=np.zeros(2, np.int64))[:-3], "no directory"),
        (save({"g": np.zeros(2, np.int64)}), "no directory"),
        (npz(g=np.zeros(2, np.int64)) + bytes(5000), r"no directory|has \d+ bytes"),
    ],
)
def test_archives_are_bounded_and_never_unpickled(bundle: Path, data: bytes, match: str) -> None:
    put_blob(bundle, data, {"g": ["int64", [2]]}, suffix=".npz")
    tracemalloc.start()
    try:
        refused(bundle, match)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


@settings(max_examples=100, deadline=None)
@given(data=st.data(), suffix=st.sampled_from([".safetensors", ".npz"]))
def test_mutated_blobs_raise_nothing_but_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, suffix: str
) -> None:
    bundle = make_bundle(tmp_path_factory.mktemp("fuzz"))
    arrays = {"g": np.arange(6, dtype=np.int16).reshape(2, 3), "z": np.array(True)}
    raw = bytearray(save(arrays) if suffix == ".safetensors" else npz(**arrays))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    put_blob(bundle, bytes(raw), {"g": ["int16", [2, 3]], "z": ["bool", []]}, suffix=suffix)
    try:
        found = dict(read_recording(bundle).transcript.messages[1].arrays)
    except CorruptRecordingError:
        assert corrupt(verify(bundle))
    else:
        assert {n: (a.dtype, a.shape) for n, a in found.items()} == {
            n: (a.dtype, a.shape) for n, a in arrays.items()
        }


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seq": 2}, "'seq' is 2, must be 1"),
        ({"seq": True}, "'seq' must be"),
        ({"sender": "mallory"}, "'sender' is 'mallory', which is not a party"),
        ({"receiver": "mallory"}, "'receiver' is 'mallory', which is not a party"),
        ({"sender": ["u"]}, "must be text"),
        ({"kind": "k" * 257}, "257 characters"),
        ({"kind": "\x1b[2J"}, "cannot be printed"),
        ({"round": -1}, "'round'"),
        ({"round": 2**63}, "'round'"),
        ({"t": "now"}, "'t'"),
        ({"t": 10**400}, "'t'"),
        ({"meta": []}, "'meta'"),
        ({"error": 5}, "'error'"),
        ({"arrays": None}, "'arrays' is null"),
        ({"reciever": "s"}, "unknown key 'reciever' in the line. Did you mean 'receiver'?"),
    ],
)
def test_a_message_must_be_as_the_format_says(
    bundle: Path, change: dict[str, Any], match: str
) -> None:
    reseal(bundle, lambda events: events[1].update(change))
    refused(bundle, match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"seq": 1, "seq": 1}', "the key 'seq' occurs twice"),
        ('{"seq": NaN}', "NaN is not JSON"),
        ('{"seq": -Infinity}', "-Infinity is not JSON"),
        ('{"seq": 1e999}', "out of range"),
        ('{"seq": ' + "9" * 5000 + "}", "not JSON"),
        ('{"seq": "\\ud800"}', "surrogate"),
        ('{"seq": {"$float": "pi"}}', r"\$float"),
        ('{"seq": {"$ref": "x"}}', "reserved"),
        ('{"seq": ' + "[" * 50 + "]" * 50 + "}", "deep"),
        ('{"a":' * 100_000, "deep"),
        ("[]", "must be a JSON object"),
        ("{}", "lacks the key 'seq'"),
        ('\ufeff{"seq": 1}', "BOM"),
    ],
)
def test_json_is_read_strictly(bundle: Path, text: str, match: str) -> None:
    path = bundle / "events.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], text, lines[2]]) + "\n")
    refused(bundle, f"line 2: .*{match}")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": "privaudit-view/2"}, "'privaudit-view/2' is not supported.*'privaudit-view/1'"),
        ({"format": None}, "not supported"),
        ({"setings": {}}, "unknown key 'setings' in the manifest. Did you mean 'settings'?"),
        ({"facts": ["single-local-stp"]}, "unknown fact.*Did you mean 'single-local-step'?"),
        ({"facts": [["x"]]}, "'facts'"),
        ({"parties": []}, "parties"),
        ({"parties": [{"id": "u", "role": "user", "description": ""}] * 2}, "same id"),
        ({"parties": [{"id": "", "role": "user", "description": ""}]}, "empty"),
        ({"parties": [{"id": "u" * 300, "role": "user", "description": ""}]}, "300 characters"),
        ({"complete": "yes"}, "'complete'"),
        ({"complete": 1}, "'complete'"),
        ({"n_events": 7}, "the manifest says 7"),
        ({"head_hash": "0" * 64}, "'head_hash'"),
        ({"head_hash": None}, "'head_hash' must be given"),
        ({"secrets": "0" * 64}, "secrets.jsonl: has SHA-256"),
        ({"digest": "0" * 64}, "was changed|occur once"),
        ({"public": []}, "'public'"),
        ({"public_arrays": {"model": {"arrays": "0" * 64, "spec": ["int8", []]}}}, "missing"),
        ({"outcome": "done"}, "'outcome'"),
    ],
)
def test_a_manifest_must_be_as_the_format_says(
    bundle: Path, change: dict[str, Any], match: str
) -> None:
    reseal(bundle, **change)
    refused(bundle, match)


def test_a_duplicated_key_in_a_manifest_is_refused(bundle: Path) -> None:
    path = bundle / "manifest.json"
    path.write_text('{"complete": true,' + path.read_text()[1:])
    refused(bundle, "the key 'complete' occurs twice")


def test_a_secret_of_a_stranger_is_refused(bundle: Path) -> None:
    path = bundle / "secrets.jsonl"
    path.write_text(path.read_text().replace('"party":"u"', '"party":"x"'))
    reseal(bundle, secrets=hashlib.sha256(path.read_bytes()).hexdigest())
    refused(bundle, "'party' is 'x', which is not a party")


@pytest.mark.parametrize(
    ("limits", "match"),
    [
        ({"max_array_bytes": 15}, "declares arrays of 16 bytes; the limit is 15"),
        ({"max_bundle_bytes": 100}, "the limit is 100"),
        ({"max_blobs": 2}, "more than 2 files"),
        ({"max_events": 2}, "more than 2 lines"),
        ({"max_line_bytes": 100}, "line 1 is longer than 100 bytes"),
        ({"max_manifest_bytes": 100}, "the limit is 100"),
        ({"max_parties": 1}, "at most 1 parties"),
        ({"max_name_length": 5}, "more than 5"),
        ({"max_depth": 1}, "deep"),
    ],
)
def test_every_limit_holds(bundle: Path, limits: dict[str, int], match: str) -> None:
    refused(bundle, match, **limits)


def test_a_folder_that_is_not_there_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    for read in (read_recording, read_truth, verify):
        with pytest.raises(ConfigurationError, match="there is no folder"):
            read(tmp_path / "nowhere")


def test_a_truth_folder_is_no_bundle(bundle: Path) -> None:
    with pytest.raises(CorruptRecordingError, match="'privaudit-truth/1' is not supported"):
        read_recording(bundle.parent / "truth")
    with pytest.raises(CorruptRecordingError, match="'privaudit-view/1' is not supported"):
        read_truth(bundle)
