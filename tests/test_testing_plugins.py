"""The kits for scorers, readers, reporters and engines: ours pass, and each rule can be broken."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import privaudit
from privaudit import plugins
from privaudit.attacks.base import Guesses
from privaudit.attacks.collusion import UpdateRecovery
from privaudit.attacks.inference import LabelsFromZeroSums
from privaudit.campaigns.grid.engines import Engine, PoolEngine, Task
from privaudit.campaigns.grid.offered import EngineOptions, engine_of
from privaudit.campaigns.grid.specification import execute
from privaudit.campaigns.runs import knowledge_of
from privaudit.campaigns.score_sets import Labels
from privaudit.errors import CorruptRecordingError
from privaudit.recording import BundleReader, ReadRun
from privaudit.reports._pdf import find_browser
from privaudit.reports.model import AuditReport
from privaudit.reports.reporters import JSON
from privaudit.scoring.estimate import Scores
from privaudit.testing import check_engine, check_reader, check_reporter, check_scorer
from privaudit.transcript import Capability, Coalition, Truth


@pytest.fixture(scope="module")
def run() -> Any:
    return privaudit.simulate(
        "fedavg",
        parameters={"rounds": 1, "model": "mlp", "local_epochs": 1},
        federation={"users": 4, "records_per_user": 10},
    )


class Toy(LabelsFromZeroSums):
    """An attack of another name, whose guesses are the labels scorer's to judge."""

    name = "inference/toy"  # type: ignore[misc]


def guesses_for(run: Any) -> Guesses:
    users = run.transcript.ids("user")
    return Guesses(users, tuple(np.asarray(3) for _ in users), np.ones(len(users)))


def test_a_registered_scorer_passes_on_guesses_of_an_attack(run: Any) -> None:
    check_scorer(Labels(), Toy(), run, guesses_for(run))
    attack = UpdateRecovery()
    view = run.transcript.view(Coalition.of("server", capabilities=frozenset(Capability)))
    guesses = attack.run(view, knowledge=knowledge_of(run), rng=np.random.default_rng(0))
    check_scorer(plugins.load("scorer", "energy")(), attack, run, guesses)


def spoiled(how: str) -> Any:
    def dominant(guesses: Guesses, truth: Truth) -> Scores:
        pairs = zip(guesses.target_ids, guesses.values, strict=True)
        if how == "unknown-target":
            return Scores("x", "proportion", dict.fromkeys(guesses.target_ids, 1.0))
        per = {t: float(truth.get(t, "labels")[0] == int(v)) for t, v in pairs}
        if how == "scores":
            per = {t: v + 0.5 for t, v in per.items()}
        if how == "same-answer":
            calls.append(1)
            per[guesses.target_ids[0]] = float(len(calls) % 2)
        if how == "by-id":
            per = {t: float(i == 0) for i, t in enumerate(guesses.target_ids)}
        if how == "inputs-unchanged":
            guesses.scores[:] = 0
        return Scores("x", "proportion", per)

    def skipping(guesses: Guesses, truth: Truth) -> Scores:
        return Scores("x", "mean", {t: 1.0 for t in guesses.target_ids if t in truth.targets})

    calls: list[int] = []
    function = skipping if how == "left-out" else dominant

    class Spoiled:
        name = "spoiled"
        attacks = ("inversion/*",) if how == "declared" else ("inference/*",)

        def metrics(self, attack: Any, run: Any) -> Any:
            return (("x", function, ""),) * (2 if how == "metrics" else 1)

    return Spoiled()


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ("declared", "declared"),
        ("metrics", "metrics"),
        ("scores", "scores"),
        ("same-answer", "same-answer"),
        ("by-id", "by-id"),
        ("inputs-unchanged", "inputs-unchanged"),
        ("unknown-target", "unknown-target"),
        ("left-out", "unknown-target"),
    ],
)
def test_a_scorer_that_breaks_a_rule_is_told_which(run: Any, how: str, rule: str) -> None:
    with pytest.raises(AssertionError, match=rf"^\[{rule}\]"):
        check_scorer(spoiled(how), Toy(), run, guesses_for(run))
    if how == "declared":
        check_scorer(spoiled("none"), Toy(), run, guesses_for(run))


@dataclass(frozen=True)
class Lines:
    """A format of a test: a line a message, with a number."""

    name: ClassVar[str] = "lines"
    how: str = ""

    def recognises(self, path: Path) -> bool:
        if self.how == "raises" and not path.exists():
            raise FileNotFoundError(path)
        if self.how == "greedy":
            return True
        return path.is_file() and path.read_bytes().startswith(b"LINES")

    def read(self, path: Path) -> ReadRun:
        from hashlib import sha256

        from privaudit.transcript import MemoryRecorder, Party

        raw = path.read_bytes()
        recorder = MemoryRecorder()
        recorder.declare([Party("a", "user"), Party("b", "server")])
        try:
            for line in raw.decode("ascii").splitlines()[1:]:
                recorder.send(kind="n", sender="a", receiver="b", arrays={"n": np.array(int(line))})
        except ValueError as error:
            if self.how == "damaged":
                raise
            raise CorruptRecordingError(f"{path}: {error}") from None
        if self.how == "unchanged":
            path.write_bytes(raw + b"\n7")
        transcript = recorder.transcript()
        if self.how == "order":
            messages = tuple(replace(m, seq=m.seq + 1) for m in transcript.messages)
            transcript = replace(transcript, messages=messages)
        digest = "always" if self.how == "digest" else sha256(raw).hexdigest()
        return ReadRun(transcript, "toy", digest)

    def truth(self, path: Path) -> Truth | None:
        return None


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ("", ""),
        ("raises", "recognises"),
        ("greedy", "recognises"),
        ("damaged", "damaged"),
        ("order", "order"),
        ("digest", "digest"),
        ("unchanged", "unchanged|same-answer"),
    ],
)
def test_a_reader_that_breaks_a_rule_is_told_which(tmp_path: Path, how: str, rule: str) -> None:
    file = tmp_path / "run.lines"
    file.write_text("LINES\n" + "\n".join(str(i) for i in range(10)))
    if not rule:
        check_reader(Lines(how), file)
        return
    with pytest.raises(AssertionError, match=rf"^\[({rule})\]"):
        check_reader(Lines(how), file)


def test_the_reader_of_bundles_passes(tmp_path: Path) -> None:
    from privaudit.recording import BundleRecorder
    from privaudit.transcript import Party

    with BundleRecorder(tmp_path / "run", protocol="toy") as recorder:
        recorder.declare([Party("a", "user"), Party("b", "server")])
        recorder.send(kind="n", sender="a", receiver="b", round=1, arrays={"n": np.arange(3)})
    check_reader(BundleReader(), tmp_path)


@dataclass(frozen=True)
class Table:
    """A format of a test."""

    name: ClassVar[str] = "table"
    file_name: str = "findings.csv"
    how: str = ""

    def render(self, report: AuditReport) -> bytes:
        if self.how == "numbers":
            json.dumps([f.per_target for f in report.findings], allow_nan=False)
        if self.how == "escaped":
            return f"<p>{report.title}</p>".encode()
        if self.how == "same-bytes":
            import secrets

            return secrets.token_bytes(8)
        if self.how == "content":
            return b""
        stream = io.StringIO()
        writer = csv.writer(stream)
        writer.writerows([f.attack, f.metric, f.estimate.value] for f in report.findings)
        return stream.getvalue().encode()


@pytest.mark.parametrize("name", sorted(plugins.available("reporter")))
def test_every_registered_reporter_passes(name: str) -> None:
    if name == "pdf" and find_browser() is None:
        pytest.skip("no Chromium is installed")
    check_reporter(plugins.load("reporter", name)(), dated=name == "pdf")


@pytest.mark.parametrize(
    ("reporter", "rule"),
    [
        (Table("../findings.csv"), "declared"),
        (Table(".findings"), "declared"),
        (Table(how="content"), "content"),
        (Table(how="numbers"), "numbers"),
        (Table(how="same-bytes"), "same-bytes"),
        (Table("findings.html", how="escaped"), "escaped"),
    ],
)
def test_a_reporter_that_breaks_a_rule_is_told_which(reporter: Any, rule: str) -> None:
    check_reporter(Table())
    with pytest.raises(AssertionError, match=rf"^\[{rule}\]"):
        check_reporter(reporter)
    # One that only has a date may differ.
    if rule == "same-bytes":
        check_reporter(reporter, dated=True)
    check_reporter(JSON())


@dataclass(frozen=True)
class Serial:
    """An engine of a test: in this process."""

    how: str = ""

    def run(
        self, tasks: Sequence[Task], *, runs: Path, data_root: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, spec in tasks[1:] if self.how == "answers" else tasks:
            try:
                result = execute(spec.to_json(), runs=runs, data_root=data_root)
            except Exception as error:
                if self.how == "raises":
                    raise
                result = {"status": "failed", "reason": str(error)}
            if self.how == "failures" and result["status"] == "failed":
                result = {**result, "reason": ""}
            if self.how == "same-results" and key == "again":
                result = {**result, "diagnostics": {"host": 1.0}}
            yield key, {**result, "seconds": 0.0}


@pytest.mark.parametrize("how", ["", "answers", "failures", "same-results"])
def test_an_engine_that_breaks_a_rule_is_told_which(tmp_path: Path, how: str) -> None:
    engine: Engine = Serial(how)
    if not how:
        check_engine(engine, tmp_path)
        return
    with pytest.raises(AssertionError, match=rf"^\[{how}\]"):
        check_engine(engine, tmp_path)


def test_the_local_engine_passes(tmp_path: Path) -> None:
    engine = engine_of("local", EngineOptions(jobs=1, logs=tmp_path / "logs"))
    assert isinstance(engine, PoolEngine)
    check_engine(engine, tmp_path)
