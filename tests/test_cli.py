"""The command line: what it prints, how it ends, and what it leaves behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import (
    SCRIPT,
    SINGLE,
    TINY,
    Ended,
    contents,
    in_process,
    interrupted,
    privaudit,
)

import privaudit as package
from privaudit.cli._console import table

MS, AS = "management-server", "aggregation-server"
COMMANDS = ("audit", "report", "simulate", "verify", "views", "list", "explain", "doctor", "attack")

Call = Callable[..., Ended]

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"
)


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with configurations, a recorded run, and one of single records."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.toml").write_text(TINY)
    (folder / "single.toml").write_text(SINGLE)
    # The first run is of a process of its own, to which later ones of this process are compared.
    made = (("run", "tiny.toml", privaudit), ("single", "single.toml", in_process))
    for name, config, script in made:
        ended = script("simulate", "pa-cfl", "-o", name, "--config", config, cwd=folder)
        assert ended.code == 0, ended.err
        assert f"recorded in {name}/run, truth apart in {name}/truth" in ended.out
        assert ended.err.startswith("pa-cfl: rounds [1/")
    return folder


def test_help_lists_every_command_and_the_exit_codes(tmp_path: Path, call: Call) -> None:
    ended = privaudit("--help", cwd=tmp_path)
    assert ended.code == 0
    for command in COMMANDS:
        assert f" {command} " in ended.out
    assert "Exit codes: 0 finished," in " ".join(ended.out.split())
    assert ended.err == ""
    assert call("-h", cwd=tmp_path).out == ended.out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, tmp_path: Path, call: Call) -> None:
    ended = call(command, "--help", cwd=tmp_path)
    assert ended.code == 0
    assert ended.out.lstrip().startswith(f"Usage: privaudit {command}")


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    assert privaudit("--version", cwd=tmp_path).out == f"privaudit {package.__version__}\n"
    command = [sys.executable, "-m", "privaudit", "--version"]
    assert subprocess.check_output(command, text=True) == f"privaudit {package.__version__}\n"


def test_lists_are_json_on_request(tmp_path: Path, call: Call) -> None:
    listed = json.loads(call("list", "--json", cwd=tmp_path).out)
    parts = {"protocols", "attacks", "scorers", "engines", "readers", "reporters"}
    assert set(listed) >= {*parts, "datasets", "models", "similarities"}
    assert set(listed["protocols"]) >= {"pa-cfl", "fedavg"}
    assert set(listed["datasets"]) >= {"digits", "breast-cancer", "wine"}
    assert all(listed["attacks"].values())
    assert set(json.loads(call("list", "models", "--json", cwd=tmp_path).out)) == {"models"}


def test_explaining_says_what_an_attack_requires_and_reads(tmp_path: Path, call: Call) -> None:
    ended = call("explain", "inversion/rank-profile", cwd=tmp_path)
    assert "risk: reconstruction" in ended.out
    assert "auxiliary-data" in ended.out
    assert "reads: permutation-sequence" in ended.out
    assert "epsilon0 : float" in call("explain", "pa-cfl", cwd=tmp_path).out


def test_the_doctor_tells_versions_and_data_sets(tmp_path: Path, call: Call) -> None:
    facts = json.loads(call("doctor", "--json", cwd=tmp_path).out)
    assert facts["privaudit"] == package.__version__
    assert facts["data set digits"].startswith("found, 1,4")
    assert facts["data set mnist"].startswith("not found")


def test_a_sound_recording_is_intact(work: Path, call: Call) -> None:
    for name in ("run", "run/run", "run/truth"):
        ended = call("verify", name, cwd=work)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.endswith("intact, no problem\n")
    told = json.loads(call("verify", "run", "--json", cwd=work).out)
    assert told == {"folder": "run/run", "intact": True, "problems": []}


@pytest.mark.parametrize(
    ("coalition", "seen", "unseen"),
    [
        (MS, "permutation-sequence", "important-values"),
        (AS, "important-values", "permutation-sequence"),
        ("user-1", "cluster-aggregate", "pre-clustering"),
        (f"{AS},user-2", "global-permutation-sequence", "permutation-sequence users"),
        (f"{MS}, {AS}", "noised-remainder", "nothing"),
        ("user-1,user-2,user-3,user-4", "important-values", "pre-clustering"),
    ],
)
def test_views_show_what_a_coalition_saw(
    coalition: str, seen: str, unseen: str, work: Path, call: Call
) -> None:
    ended = call("views", "run", "--coalition", coalition, "--json", cwd=work)
    assert ended.code == 0
    (view,) = json.loads(ended.out)["views"]
    members = [m.strip() for m in coalition.split(",")]
    assert view["coalition"] == members
    found = {row["kind"] for row in view["messages"]}
    assert seen in found
    assert unseen not in found
    for row in view["messages"]:
        assert row["from"] in members or row["to"] in members
        assert row["messages"] >= 1
        assert row["bytes"] > 0
    printed = call("views", "run", "--coalition", coalition, cwd=work).out
    assert seen in printed
    assert f"View of {' + '.join(members)}" in printed


def test_the_messages_of_a_view_are_those_of_the_recording(work: Path, call: Call) -> None:
    everyone = ",".join([*(f"user-{i}" for i in range(1, 5)), MS, AS])
    ended = call("views", "run", "--coalition", everyone, "--json", cwd=work)
    (view,) = json.loads(ended.out)["views"]
    lines = (work / "run" / "run" / "events.jsonl").read_text().splitlines()
    assert sum(row["messages"] for row in view["messages"]) == len(lines)


def test_without_a_coalition_each_server_and_one_user_are_shown(work: Path, call: Call) -> None:
    listed = json.loads(call("views", "run", "--json", cwd=work).out)
    assert listed["complete"] is True
    assert [v["coalition"] for v in listed["views"]] == [[MS], [AS], ["user-1"]]
    assert "and 3 other users" in call("views", "run", cwd=work).out


def test_two_runs_with_one_seed_are_the_same_byte_for_byte(
    work: Path, tmp_path: Path, call: Call
) -> None:
    arguments = ("simulate", "pa-cfl", "--config", work / "tiny.toml", "-q")
    assert call(*arguments, "-o", "again", cwd=tmp_path).code == 0
    assert contents(tmp_path / "again") == contents(work / "run")
    assert call(*arguments, "-o", "other", "--seed", "1", cwd=tmp_path).code == 0
    assert contents(tmp_path / "other") != contents(work / "run")


def test_options_win_over_the_file(work: Path, tmp_path: Path, call: Call) -> None:
    ended = call(
        "simulate", "pa-cfl", "--config", work / "tiny.toml", "-o", "out", "-q",
        "--rounds", "1", "-p", "epsilon0=2.5", "--users", "5", cwd=tmp_path,
    )  # fmt: skip
    assert ended.code == 0
    manifest = json.loads((tmp_path / "out" / "run" / "manifest.json").read_text())
    settings = manifest["settings"]
    assert settings["parameters"]["rounds"] == 1
    assert settings["parameters"]["epsilon0"] == 2.5
    assert settings["parameters"]["model"] == "lenet"
    assert settings["federation"]["users"] == 5


def test_quiet_prints_nothing_on_standard_error(work: Path, tmp_path: Path, call: Call) -> None:
    ended = call(
        "simulate", "fedavg", "--config", work / "tiny.toml", "-o", "out", "-q", cwd=tmp_path,
    )  # fmt: skip
    assert ended.code == 2, "FedAvg has no similarity"
    (tmp_path / "fedavg.toml").write_text(TINY.replace('similarity = "jaccard"', ""))
    ended = privaudit(
        "simulate", "fedavg", "--config", "fedavg.toml", "-o", "out", "--quiet", cwd=tmp_path
    )
    assert (ended.code, ended.err) == (0, "")
    assert call("verify", "out", cwd=tmp_path).code == 0


def test_a_table_that_is_wider_than_the_terminal_gives_up_its_frame_before_its_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ("metric", "value", "95 % interval", "baseline", "control", "n", "verdict")
    row = ("identification", "1", "0.292 to 0.999", "0.0123", "0.0456", "3", "inconclusive")
    for width, framed in (("80", False), ("100", True)):
        monkeypatch.setenv("COLUMNS", width)
        table("a title", columns, [row])
        out = capsys.readouterr().out
        assert all(cell in out for cell in (*columns, *row))
        assert ("┃" in out) == framed
        assert max(map(len, out.splitlines())) <= int(width)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_is_incomplete_and_can_still_be_viewed(
    by: signal.Signals, work: Path, tmp_path: Path, call: Call
) -> None:
    events = tmp_path / "out" / "run" / "events.jsonl"
    ended = interrupted(
        "simulate", "pa-cfl", "--config", work / "tiny.toml", "-o", "out", "--rounds", "2000",
        cwd=tmp_path, by=by, when=lambda: events.is_file() and events.stat().st_size > 20_000,
    )  # fmt: skip
    if by == signal.SIGINT:
        assert ended.code == 3
        assert ended.err.splitlines()[-1] == "privaudit: interrupted; finished work was kept"
        assert "Traceback" not in ended.err
    verified = call("verify", "out", cwd=tmp_path)
    assert verified.code == 3
    assert "incomplete" in verified.out
    viewed = call("views", "out", "--coalition", MS, "--json", cwd=tmp_path)
    assert viewed.code == 0
    listed = json.loads(viewed.out)
    assert listed["complete"] is False
    assert sum(row["messages"] for row in listed["views"][0]["messages"]) > 10
    # A coalition that saw nothing yet is no answer.
    bundle = tmp_path / "out" / "run"
    shutil.copytree(bundle, tmp_path / "begun")
    (tmp_path / "begun" / "events.jsonl").write_bytes(b"")
    assert call("views", "begun", cwd=tmp_path).code == 3
    # What is left is not overwritten unless asked for.
    again = ("simulate", "pa-cfl", "--config", work / "tiny.toml", "-o", "out", "-q")
    assert call(*again, cwd=tmp_path).code == 2
    assert call(*again, "--force", cwd=tmp_path).code == 0
    assert contents(tmp_path / "out") == contents(work / "run")


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("name", ["manifest.json", "events.jsonl", "secrets.jsonl", "arrays"])
def test_a_flipped_bit_is_found_and_its_file_is_named(
    name: str, work: Path, tmp_path: Path, call: Call
) -> None:
    shutil.copytree(work / "run", tmp_path / "run")
    file = tmp_path / "run" / "run" / name
    if name == "arrays":
        file = sorted(file.iterdir())[3]
    if file.stat().st_size == 0:
        file.write_bytes(b"{}\n")
    else:
        flip(file, file.stat().st_size // 2)
    ended = call("verify", "run", cwd=tmp_path)
    assert ended.code == 2
    assert "corrupt: " in ended.out
    assert (file.stem if name == "arrays" else name) in ended.out
    told = json.loads(call("verify", "run", "--json", cwd=tmp_path).out)
    assert told["intact"] is False


def refused(ended: Any) -> str:
    """One line that says what is wrong, and exit code 2."""
    assert ended.code == 2, (ended.out, ended.err)
    assert ended.out == ""
    assert ended.err.startswith("privaudit: error: ")
    assert ended.err.count("\n") == 1, ended.err
    assert "Traceback" not in ended.err
    return str(ended.err)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["simulate", "pa-clf"], "Did you mean 'pa-cfl'?"),
        (["simulate", "pa-cfl", "-p", "epsilon=1"], "unknown key 'epsilon'"),
        (["simulate", "pa-cfl", "-p", "epsilon=1"], "Did you mean 'epsilon0'?"),
        (["simulate", "pa-cfl", "-p", "rounds"], "KEY=VALUE"),
        (["simulate", "pa-cfl", "--users", "1"], "federation.users = 1"),
        (["simulate", "pa-cfl", "--partition", "sorted"], "federation.partition = 'sorted'"),
        (["simulate", "pa-cfl", "-p", "top_k=0"], "top_k = 0"),
        (["simulate", "pa-cfl", "-p", "top_k=10000000"], "allowed are 1 to"),
        (["simulate", "pa-cfl", "-p", "epsilon0=0"], "epsilon0 = 0"),
        (["simulate", "pa-cfl", "-p", "epsilon0=-1"], "epsilon0 = -1"),
        (["simulate", "pa-cfl", "-p", "epsilon0=nan"], "epsilon0 = nan"),
        (["simulate", "pa-cfl", "-p", "epsilon0=three"], "epsilon0 = 'three'"),
        (["simulate", "pa-cfl", "-p", "learning_rate=1e38"], "user-1 in round 1 is not finite"),
        (["simulate", "pa-cfl", "-p", "model=lenett"], "Did you mean 'lenet'?"),
        (["simulate", "pa-cfl", "--dataset", "digitz"], "Did you mean 'digits'?"),
        (["simulate", "pa-cfl", "--dataset", "mnist"], "needs a data root"),
        (["simulate", "pa-cfl", "--dataset", "mnist", "--data-root", "no"], "does not exist"),
        (["simulate", "pa-cfl", "--dataset", "mnist", "--data-root", "."], "not complete under"),
        (["simulate", "pa-cfl", "--dataset", "no.npz"], "no data file at"),
        (["simulate", "pa-cfl", "--dataset", "nan.npz"], "is not finite"),
        (["simulate", "pa-cfl", "--config", "no.toml"], "no.toml: cannot be read"),
        (["simulate", "pa-cfl", "--config", "bad.toml"], "bad.toml: not valid TOML"),
        (["simulate", "pa-cfl", "--config", "key.toml"], "key.toml: unknown key 'sead'"),
        (["simulate", "pa-cfl", "--config", "key.toml"], "Did you mean 'seed'?"),
        (["simulate", "pa-cfl", "--config", "section.toml"], "unknown key 'federation.user'"),
        (["simulate", "pa-cfl", "--config", "flat.toml"], "written [federation]"),
        (["simulate", "pa-cfl", "--config", "flat2.toml"], "written [parameters]"),
        (["simulate", "pa-cfl", "--config", "skewed.toml"], "would hold no records"),
        (["audit", "pa-clf"], "Did you mean 'pa-cfl'?"),
        (["audit", "pa-cfl", "-p", "epsilon0=0"], "epsilon0 = 0"),
        (["audit", "pa-cfl", "-p", "top_k=10000000"], "give top_k_fraction instead"),
        (["audit", "pa-cfl", "-p", "top_k_fraction=1"], "allowed are 1 to"),
        (["audit", "pa-cfl", "--delta", "2"], "delta = 2.0"),
        (["audit", "pa-cfl", "--users", "1"], "federation.users = 1"),
        (["audit", "pa-cfl", "--dataset", "nan.npz"], "is not finite"),
        (["audit", "pa-cfl", "--config", "key.toml"], "unknown key 'sead'"),
    ],
)
def test_a_wrong_input_is_one_line_and_nothing_is_written(
    arguments: list[str], says: str, inputs: Path, call: Call
) -> None:
    before = contents(inputs)
    assert says in refused(call(*arguments, "-o", "out", cwd=inputs))
    assert not (inputs / "out").exists()
    assert contents(inputs) == before


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with configurations and data that are wrong in one way each."""
    import numpy as np

    folder = tmp_path_factory.mktemp("inputs")
    (folder / "bad.toml").write_text("seed = = 1\n")
    (folder / "key.toml").write_text("sead = 1\n")
    (folder / "section.toml").write_text("[federation]\nuser = 3\n")
    (folder / "flat.toml").write_text("federation = 3\n")
    (folder / "flat2.toml").write_text("parameters = 3\n")
    (folder / "skewed.toml").write_text(
        '[federation]\npartition = "dirichlet"\nalpha = 0.0001\nusers = 300\n'
    )
    images = np.random.default_rng(0).random((40, 8, 8))
    images[17, 3, 3] = np.nan
    np.savez(folder / "nan.npz", images=images, labels=np.arange(40) % 10)
    return folder


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["views", "run", "--coalition", "user-11"], "Did you mean 'user-1'?"),
        (["views", "run", "--coalition", ""], "names nobody"),
        (["views", "run", "--coalition", " , "], "names nobody"),
        (["views", "nowhere"], "nowhere is not a recorded run"),
        (["verify", "nowhere"], "nowhere is not a recorded run"),
        (["views", "run", "--reader", "privaudit-vew"], "Did you mean 'privaudit-view'?"),
        (["epsilon", "events", "run", "--reader", "csv"], "no reader is named 'csv'"),
        (["audit", "pa-cfl", "--reader", "privaudit-view", "-o", "new"], "is for recorded runs"),
        (["list", "protocol"], "Did you mean 'protocols'?"),
        (["explain", "fedagv"], "Did you mean 'fedavg'?"),
        (["attack", "run", "--attack", "inversion/top-j", "--coalition", MS], "'inversion/top-k'?"),
        (["attack", "run", "--attack", "inversion/top-k", "--coalition", "MS"], "'MS' is not a"),
        (["attack", "run", "--attack", "inversion/top-k", "--coalition", ","], "names nobody"),
        (["attack", "nowhere", "--attack", "inversion/top-k", "--coalition", MS], "not a recorded"),
        (["report", "run"], "report.json: cannot be read"),
        (["report", "run", "--format", ","], "names no format"),
    ],
)
def test_a_wrong_question_about_a_run_is_one_line(
    arguments: list[str], says: str, work: Path, call: Call
) -> None:
    before = contents(work)
    assert says in refused(call(*arguments, cwd=work))
    assert contents(work) == before


def test_the_name_of_a_protocol_is_not_taken_for_a_folder(tmp_path: Path, call: Call) -> None:
    (tmp_path / "pa-cfl").mkdir()
    ended = call("audit", "pa-cfl", "-o", "new", "-p", "epsilon0=1000", cwd=tmp_path)
    assert ended.code == 2
    assert "'pa-cfl' is read as the protocol" in ended.err
    assert "epsilon0 = 1000: an audit proves budgets" in ended.err
    assert not (tmp_path / "new").exists()
    reading = call("audit", "pa-cfl", "--reader", "privaudit-view", "-o", "new", cwd=tmp_path)
    assert "write ./pa-cfl" in reading.err
    named = call("audit", "./pa-cfl", "-o", "new", cwd=tmp_path)
    assert "not a recorded run" in named.err


SORTED = ("attack", "single", "--attack", "inversion/sorted-values", "--coalition", AS)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("iteration=3", "no option 'iteration'; known are iterations,"),
        ("iterations=many", "iterations = 'many'"),
        ("iterations=0", "iterations must be at least 1"),
        ("iterations", "KEY=VALUE"),
    ],
)
def test_a_wrong_option_of_an_attack_is_one_line(
    option: str, says: str, work: Path, call: Call
) -> None:
    assert says in refused(call(*SORTED, "--option", option, cwd=work))


def test_what_is_withheld_must_be_a_capability(work: Path, call: Call) -> None:
    assert "Did you mean 'model-parameters'?" in refused(
        call(*SORTED, "--withhold", "model-parameter", cwd=work)
    )
    told = refused(call(*SORTED, "--withhold", "aux", cwd=work))
    assert told.endswith("Did you mean 'auxiliary-data'?\n")


@pytest.mark.parametrize("command", ["simulate", "audit"])
def test_what_lies_in_the_output_folder_is_kept(
    command: str, work: Path, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    before = contents(tmp_path)
    arguments = (command, "pa-cfl", "-q")
    assert "holds thesis.tex" in refused(call(*arguments, "-o", "full", cwd=tmp_path))
    assert "is a file" in refused(call(*arguments, "-o", "file", cwd=tmp_path))
    assert contents(tmp_path) == before


def test_a_recording_is_not_replaced_without_force(work: Path, call: Call) -> None:
    before = contents(work / "run")
    arguments = ("simulate", "pa-cfl", "--config", "tiny.toml", "-o", "run", "--seed", "9", "-q")
    assert "--force" in refused(call(*arguments, cwd=work))
    assert contents(work / "run") == before


@pytest.mark.parametrize(
    "arguments", [["simulate"], ["simulate", "pa-cfl"], ["simulat"], ["views", "--no-such-option"]]
)
def test_wrong_usage_ends_with_2_and_points_to_the_help(
    arguments: list[str], tmp_path: Path, call: Call
) -> None:
    ended = call(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert "privaudit" in ended.err
    assert "-h' for help" in ended.err
    assert "Traceback" not in ended.err


def test_debug_shows_the_traceback_of_an_error(tmp_path: Path) -> None:
    ended = privaudit("--debug", "explain", "fedagv", cwd=tmp_path)
    assert ended.code != 0
    assert "Traceback (most recent call last)" in ended.err
    assert "Did you mean 'fedavg'?" in ended.err


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_output_that_is_no_terminal_has_no_escape_codes(env: dict[str, str], work: Path) -> None:
    for arguments in (["--help"], ["views", "run"], ["simulate"]):
        ended = privaudit(*arguments, cwd=work, **env)
        assert "\x1b" not in ended.out + ended.err


def test_a_reader_that_goes_away_is_no_error(work: Path) -> None:
    import subprocess

    from cli_runs import environment

    done = subprocess.run(
        ["sh", "-c", f"{SCRIPT} views run --json | head -c 10"],
        cwd=work,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert len(done.stdout) == 10


def test_an_attack_gives_figures_with_interval_baseline_control_and_n(
    work: Path, call: Call
) -> None:
    ended = call(
        "attack", "single", "--attack", "inference/labels-from-permutation", "--coalition", MS,
        "--json", cwd=work,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert (told["attack"], told["coalition"], told["guesses"]) == (
        "inference/labels-from-permutation",
        [MS],
        4,
    )
    (figure,) = told["figures"]
    assert figure["n"] == 4
    assert figure["low"] <= figure["value"] <= figure["high"]
    assert figure["baseline"]["n"] == figure["control"]["n"] == 4
    assert figure["verdict"] in ("breached", "inconclusive"), "four targets never show safety"


def test_an_attack_is_the_same_for_the_same_seed(work: Path, call: Call) -> None:
    arguments = (*SORTED, "--option", "iterations=2", "--json")
    first, again = (call(*arguments, "--seed", "4", cwd=work).out for _ in range(2))
    assert json.loads(first)["figures"]
    assert first == again


def test_without_the_truth_guesses_are_counted(work: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(work / "single" / "run", tmp_path / "single")
    ended = call(*SORTED, "--option", "iterations=2", cwd=tmp_path)
    assert ended.code == 0
    assert "guesses for 4 targets, no figures: the truth does not lie beside" in ended.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["attack", "run", "--attack", "inversion/sorted-values", "--coalition", AS],
            "the transcript does not show single-local-step",
        ),
        ([*SORTED, "--withhold", "model-parameters"], "the threat model does not grant it"),
        (
            ["attack", "single", "--attack", "inversion/top-k", "--coalition", AS],
            "add one user to the coalition",
        ),
    ],
)
def test_an_attack_that_does_not_apply_ends_with_3_and_the_reason(
    arguments: list[str], reason: str, work: Path, call: Call
) -> None:
    ended = call(*arguments, cwd=work)
    assert (ended.code, ended.out) == (3, "")
    assert reason in ended.err
    assert ended.err.count("\n") == 1


def test_a_value_that_is_not_finite_is_an_error_that_names_its_message(
    tmp_path: Path, call: Call
) -> None:
    import numpy as np

    from privaudit.protocols.baselines.kinds import SERVER, UPDATE
    from privaudit.recording import BundleRecorder
    from privaudit.transcript import Capability, Party

    update = np.ones(8026, dtype=np.float32)
    update[5] = np.nan
    facts = set(Capability) - {Capability.AUXILIARY_DATA}
    with BundleRecorder(tmp_path / "run", protocol="fedavg") as recorder:
        recorder.declare([Party("user-1", "user"), Party(SERVER, "server")], facts=facts)
        recorder.publish("model", {"name": "lenet", "input_shape": [1, 8, 8], "classes": 10})
        recorder.publish("initial-parameters", np.zeros(8026, dtype=np.float32))
        recorder.send(
            kind=UPDATE, sender="user-1", receiver=SERVER, round=1, arrays={"values": update}
        )
        recorder.finish({"status": "completed"})
    assert call("verify", "run", cwd=tmp_path).out.startswith("warning: events.jsonl")
    message = refused(
        call("attack", "run", "--attack", "inversion/dlg", "--coalition", SERVER, cwd=tmp_path)
    )
    assert "message 0 ('update' from 'user-1'): 1 of 8026 values are not finite" in message


def test_an_attack_on_a_damaged_recording_is_refused(
    work: Path, tmp_path: Path, call: Call
) -> None:
    shutil.copytree(work / "single", tmp_path / "single")
    flip(tmp_path / "single" / "run" / "events.jsonl", 200)
    assert "events.jsonl" in refused(call(*SORTED, cwd=tmp_path))


def test_names_from_a_recording_are_printed_as_text_and_not_as_markup(
    tmp_path: Path, call: Call
) -> None:
    from privaudit.recording import BundleRecorder
    from privaudit.transcript import Party

    with BundleRecorder(tmp_path / "run", protocol="toy") as recorder:
        recorder.declare([Party("[red]user[/red]", "user"), Party("server", "server")])
        recorder.send(kind="[link=file:///]x[/link]", sender="[red]user[/red]", receiver="server")
        recorder.finish({"status": "completed"})
    ended = call("views", "run", "--coalition", "server", cwd=tmp_path)
    assert "[red]user[/red]" in ended.out
    assert "[link=file:///]x[/link]" in ended.out
