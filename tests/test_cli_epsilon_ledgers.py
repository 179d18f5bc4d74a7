"""``privaudit epsilon events``: ledgers and recorded runs are accounted; others are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from epsilon_commands import called, script, strict_json

from privaudit.accounting import vector_budget
from privaudit.ledger import LaplaceVector, PrivacyEvent, UnprotectedRelease, event_to_json


def event(*, shuffle: Any = "per-coordinate", clip_source: Any = "fixed") -> PrivacyEvent:
    return PrivacyEvent(
        round=1,
        mechanism=LaplaceVector(1.0, 5000, 1.0, shuffle=shuffle, clip_source=clip_source),
        subjects=("a", "b", "c", "d"),
        observers=("aggregation-server",),
        unit="the less important subvector of one user",
    )


def ledger(tmp_path: Path, events: list[Any]) -> Path:
    file = tmp_path / "ledger.json"
    file.write_text(json.dumps(events))
    return file


def test_a_ledger_is_accounted_and_written_back(tmp_path: Path) -> None:
    unprotected = PrivacyEvent(
        round=1,
        mechanism=UnprotectedRelease("positions of the largest values\x1b[31m", 10),
        subjects=("a",),
        observers=("management-server",),
        unit="one user's update",
    )
    events = [event_to_json(event()), event_to_json(unprotected)]
    file, again = ledger(tmp_path, events), tmp_path / "again.json"
    done = script("events", str(file), "--ledger-out", str(again))
    assert done.returncode == 0, done.stderr
    assert "infinite" in done.stdout
    assert "positions of the largest values" in done.stdout
    assert "\x1b" not in done.stdout
    assert strict_json(again.read_text()) == json.loads(json.dumps(events))


def test_an_infinite_budget_of_a_user_is_null_in_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = ledger(tmp_path, [event_to_json(event(clip_source="median-of-users"))])
    code, out, _ = called(capsys, "events", str(file), "--json")
    assert code == 0
    told = strict_json(out)
    assert told["user_level_epsilon"] is None
    assert told["user_level_note"] == "infinite"
    assert [r["upper"] for r in told["rows"] if r["role"] == "user"] == [None]
    assert told["uncovered"][0]["what"] == "median of the users' norms"


def test_colluding_users_do_not_count_as_honest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = ledger(tmp_path, [event_to_json(event())])
    code, out, _ = called(capsys, "events", str(file), "--json", "--colluding-users", "2")
    assert code == 0
    (row,) = [r for r in strict_json(out)["rows"] if r["role"] == "bracket"]
    assert (row["cluster_size"], row["honest_users"]) == (4, 2)
    assert row["upper"] == vector_budget({2: 1}, 1.0, 1e-5).refined.upper


def changed(**mechanism: Any) -> list[Any]:
    value = event_to_json(event())
    return [{**value, "mechanism": {**value["mechanism"], **mechanism}}]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "no privacy event"),
        ({}, "list of privacy events"),
        ([1], "event 1"),
        ([{"mechanism": {"name": "gausian"}}], "laplace-vector"),
        ([{"mechanism": {"name": "gaussian"}}], "noise_multiplier"),
        ([{"mechanism": {"name": "pure-release", "epsilon": 1e3}}], "not a privacy event"),
        (
            [
                {
                    **event_to_json(event()),
                    "mechanism": {"name": "randomized-response", "categories": 4, "epsilon0": 1.0},
                    "relation": "add-remove",
                }
            ],
            "contradicts",
        ),
        (changed(shuffle="percoordinate"), "shuffle"),
        (changed(epsilon0="1"), "epsilon0"),
        (changed(epsilon0=-1), "epsilon0"),
        (changed(epsilon0=1e300), "epsilon0"),
        (changed(dimension=1.5), "dimension"),
        (changed(sensitivity=1), "sensitivity"),
        ([{**event_to_json(event()), "subjects": "abc"}], "subjects"),
        ([{**event_to_json(event()), "subjects": []}], "subjects"),
        ([{**event_to_json(event()), "rounds": 3}], "Did you mean 'round'"),
        ([{**event_to_json(event()), "relation": "add-remove"}], "replace-one"),
    ],
)
def test_a_ledger_that_is_not_one_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, events: Any, words: str
) -> None:
    code, out, err = called(capsys, "events", str(ledger(tmp_path, events)))
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize("text", ["", "[NaN]", "[" * 100_000, "\xff"])
def test_a_file_that_is_not_json_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="latin-1")
    code, _, err = called(capsys, "events", str(file))
    assert code == 2
    assert str(file) in err


def test_a_folder_that_is_no_recording_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = called(capsys, "events", str(tmp_path))
    assert code == 2
    assert "is not a recorded run" in err


@pytest.mark.slow
def test_a_recorded_run_is_accounted_from_its_transcript(tmp_path: Path) -> None:
    from privaudit.campaigns.simulation import SimulationConfig, record_run
    from privaudit.protocols.pa_cfl import PACFL
    from privaudit.recording import read_recording

    config = SimulationConfig(federation={"users": 4, "groups": 2}, parameters={"rounds": 1})
    record_run(config, tmp_path / "r")
    out = tmp_path / "ledger.json"
    done = script("events", str(tmp_path / "r"), "--json", "--ledger-out", str(out))
    assert done.returncode == 0, done.stderr
    events = PACFL().events(read_recording(tmp_path / "r" / "run").transcript)
    assert json.loads(out.read_text()) == json.loads(json.dumps([event_to_json(e) for e in events]))
    assert strict_json(done.stdout)["events"] == len(events)


@pytest.mark.parametrize("steps", [3, 1000])
def test_a_ledger_without_shuffled_vectors_is_accounted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, steps: int
) -> None:
    # A sampled sum; and dp_accounting's word on single Renyi orders stays off standard error.
    mechanism = {
        "name": "subsampled-gaussian",
        "noise_multiplier": 1.0,
        "sampling_probability": 0.01,
        "steps": steps,
    }
    value = {**event_to_json(event()), "mechanism": mechanism, "relation": "add-remove"}
    code, out, err = called(capsys, "events", str(ledger(tmp_path, [value])), "--json")
    assert (code, err) == (0, "")
    (user,) = [r for r in strict_json(out)["rows"] if r["role"] == "user"]
    assert 0 < user["upper"] < 2.11


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subjects": ["a", "b", "a"]}, "subjects: names 'a' more than once"),
        ({"round": -1}, "round must be >= 0, got -1"),
    ],
)
def test_a_user_cannot_hide_behind_itself_nor_a_round_before_the_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    file = ledger(tmp_path, [{**event_to_json(event()), **change}])
    code, _, err = called(capsys, "events", str(file))
    assert code == 2
    assert message in err
