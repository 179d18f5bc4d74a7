"""Campaigns: what a file stands for, and that any interruption leaves the same results."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import SCRIPT, privaudit
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.campaigns.coalitions import members_of
from privaudit.campaigns.grid import Campaign, CellSpec, Store, read_campaign, run_campaign
from privaudit.campaigns.grid.engines import Task
from privaudit.campaigns.grid.pool import Pool
from privaudit.campaigns.grid.recorded import run_key
from privaudit.campaigns.grid.report import campaign_report
from privaudit.campaigns.grid.specification import execute
from privaudit.campaigns.grid.store import FILE, Row
from privaudit.campaigns.grid.subjects import subject_of
from privaudit.campaigns.grid.table import flat_rows, selected
from privaudit.campaigns.measurements import measurement_from_json, measurement_to_json
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError, OutputExistsError, PluginError
from privaudit.transcript import Party, Transcript

LABELS = {
    "name": "inference/class-counts",
    "coalitions": ["server", "1 user"],
}
SMALL: dict[str, Any] = {
    "name": "small",
    "protocol": "disue",
    "parameters": {
        "rounds": 1,
        "model": "mlp",
        "local_epochs": 1,
        "similarity": "plain",
        "distillation": "none",
        "participation": 1.0,
    },
    "federation": {"users": 4, "records_per_user": 8, "auxiliary_records": 20},
    "grid": {"federation.partition": ["iid", "dirichlet"], "seed": [0, 1]},
    "attack": [LABELS],
}


def campaign(**changes: Any) -> Campaign:
    return validated(Campaign, {**SMALL, **changes}, where="test")


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    return


class InProcess:
    """An engine without processes, which may stop after some cells as a crash would."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after, self.measured = stop_after, 0

    def run(
        self, tasks: Sequence[Task], *, runs: Path, data_root: Path | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for key, spec in tasks:
            if self.measured == self.stop_after:
                raise KeyboardInterrupt
            self.measured += 1
            yield key, execute(spec.to_json(), runs=runs, data_root=data_root)


def stored(folder: Path) -> list[tuple[Any, ...]]:
    """Everything that does not depend on how fast the machine was."""
    with sqlite3.connect(folder / FILE) as connection:
        return connection.execute(
            "SELECT key, position, specification, status, reason, result FROM cells ORDER BY key"
        ).fetchall()


def test_the_grid_is_the_product_of_its_axes_less_what_is_excluded() -> None:
    cells = campaign().cells()
    assert len(cells) == 2 * 2 * 2
    assert len({c.key() for c in cells}) == len(cells)
    fewer = campaign(exclude=[{"federation.partition": "iid", "seed": 1}]).cells()
    assert {c.key() for c in fewer} < {c.key() for c in cells}
    assert len(fewer) == 6
    options = campaign(
        attack=[
            {
                "name": "inference/class-counts",
                "options": {"round": [1, 2]},
                "coalitions": ["server"],
            }
        ]
    ).cells()
    assert {c.options["round"] for c in options} == {1, 2}


def test_a_parameter_that_a_protocol_lacks_makes_no_second_run_of_it() -> None:
    cells = campaign(
        protocol="pa-cfl",
        parameters={"rounds": 1, "model": "mlp"},
        grid={"protocol": ["pa-cfl", "fedavg"], "parameters.epsilon0": [1.0, 3.0]},
        attack=[
            {"name": "inversion/dlg", "coalitions": ["server"], "protocols": ["fedavg"]},
            {
                "name": "inference/labels-from-permutation",
                "coalitions": ["management-server"],
                "protocols": ["pa-cfl"],
            },
        ],
    ).cells()
    assert [c.run["protocol"] for c in cells] == ["pa-cfl", "pa-cfl", "fedavg"]


def test_a_grid_that_is_too_large_is_refused_before_it_is_expanded() -> None:
    rates = [x / 1e4 for x in range(1, 1415)]
    large = campaign(grid={"seed": range(1414), "parameters.learning_rate": rates})
    started = time.perf_counter()
    with pytest.raises(
        ConfigurationError,
        match=r"has 3,998,792 cells; allowed are 100,000: .* \(the longest: seed with 1,414 values",
    ):
        large.cells()
    assert time.perf_counter() - started < 5
    # Options of attacks count, and what is excluded does not.
    rounds = {**LABELS, "options": {"round": list(range(1, 200_001))}}
    with pytest.raises(ConfigurationError, match=r"inference/class-counts: options.round with 200"):
        campaign(attack=[rounds]).cells()
    seeds = list(range(60_000))
    grid = {"seed": seeds, "federation.partition": ["iid", "dirichlet"]}
    excluded = [{"seed": seed} for seed in seeds[3:]]
    campaign(grid=grid, exclude=excluded)._check_size()
    with pytest.raises(ConfigurationError, match="has 239,992 cells"):
        campaign(grid=grid, exclude=[{"seed": 1}, {"seed": 2}])._check_size()


def test_an_axis_that_a_protocol_lacks_does_not_count_for_it() -> None:
    grid = {"protocol": ["pa-cfl", "fedavg"], "parameters.epsilon0": [1.0 + i for i in range(9)]}
    made = campaign(
        parameters={"rounds": 1}, grid=grid, attack=[{"name": "inversion/dlg", "coalitions": ["a"]}]
    )
    assert made._sizes("pa-cfl") == {"parameters.epsilon0": 9}
    assert made._sizes("fedavg") == {}
    assert len(made.cells()) == 10


def test_a_key_depends_on_all_that_a_result_depends_on() -> None:
    (first, *others) = campaign().cells()
    keys = {first.key()}
    for changed in (
        CellSpec(first.run, first.attack, {"round": 1}, first.coalition),
        CellSpec(first.run, first.attack, {}, "server + 1 user"),
        CellSpec(first.run, first.attack, {}, first.coalition, ("auxiliary-data",)),
        CellSpec({**first.run, "seed": 9}, first.attack, {}, first.coalition),
        *others,
    ):
        keys.add(changed.key())
    assert len(keys) == 5 + len(others)
    assert CellSpec.from_json(json.loads(json.dumps(first.to_json()))).key() == first.key()
    assert run_key(dict(reversed(list(first.run.items())))) == run_key(first.run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grids": {}}, "Did you mean 'grid'"),
        ({"grid": {"seed": []}}, "'seed' has no values"),
        ({"grid": {"seed": [1, 1]}}, "a value twice"),
        ({"grid": {"parameter.rounds": [1]}}, "is no axis"),
        ({"grid": {"parameters.epsilonn": [1]}}, "fits none of the campaign's protocols"),
        ({"exclude": [{"seeds": 1}]}, "Did you mean 'seed'"),
        ({"grid": {"seed": [0]}, "exclude": [{"seed": 0}]}, "the grid is empty"),
        ({"grid": {"seed": [0, 1]}, "exclude": [{"seed": 2}]}, "excludes nothing; its values are"),
        ({"attack": []}, "names no"),
        ({"protocol": ""}, r"names no protocol; write protocol = .* known are .*pa-cfl"),
        ({"attack": [{**LABELS, "coalitions": "server"}]}, r"must be a list, written \[\.\.\.\]"),
        ({"attack": [{**LABELS, "withhold": ["auxdata"]}]}, "Did you mean 'auxiliary-data'"),
        ({"grid": {"seed": [0], "protocol": "disue"}}, r"protocol = 'disue': must be a list"),
        ({"parameters": 3}, "parameters = 3: must be a table"),
        ({"attack": [{"name": "inference/class-counts"}]}, "names no coalitions"),
        ({"attack": [{**LABELS, "protocols": ["fedavgg"]}]}, "which the campaign does not run"),
        ({"attack": [{**LABELS, "options": {"rond": 1}}]}, "Did you mean 'round'"),
        ({"attack": [{**LABELS, "options": {"round": []}}]}, "has no values"),
        ({"attack": [{**LABELS, "withhold": ["auxilary-data"]}]}, "Did you mean 'auxiliary-data'"),
        ({"parameters": {"rounds": 0}}, "rounds = 0"),
        ({"federation": {"usres": 4}}, "Did you mean 'users'"),
    ],
)
def test_a_wrong_campaign_is_refused_by_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        campaign(**changes).cells()


def test_an_unknown_attack_is_refused_with_the_nearest() -> None:
    with pytest.raises(PluginError, match="Did you mean 'inference/class-counts'"):
        campaign(attack=[{**LABELS, "name": "inference/class-count"}]).cells()


def test_coalitions_are_named_or_counted() -> None:
    transcript = Transcript(
        (*(Party(f"user-{i}", "user") for i in (1, 2, 3)), Party("server", "server")), ()
    )
    assert members_of("server + 2 users", transcript) == ("server", "user-1", "user-2")
    assert members_of("user-3,user-3", transcript) == ("user-3",)
    for wrong in ("", "4 users", "server + ", "-3 users", "0 users", "3.5 users"):
        with pytest.raises(ConfigurationError, match="coalition"):
            members_of(wrong, transcript)


@pytest.mark.parametrize("written", ["server + 2 users", "server,2 users"])
def test_a_report_names_the_members_of_a_coalition_however_it_is_written(written: str) -> None:
    spec = campaign(attack=[{**LABELS, "coalitions": [written]}]).cells()[0]
    subject = subject_of(Row(spec.key(), spec, "measured", "", None, None), grid=(), among=0)
    assert subject.members == ("server", "2 users")
    assert subject.size == 3


@pytest.mark.parametrize(
    "wrong",
    [
        "-3 users",
        "0 users",
        "+3 users",
        "3.5 users",
        "3,5 users",
        "server + -1 user",
        "server ++ x",
    ],
)
def test_a_number_of_users_that_no_run_has_is_refused_when_the_campaign_is_read(
    wrong: str,
) -> None:
    with pytest.raises(ConfigurationError, match="a whole number of at least 1"):
        campaign(attack=[{**LABELS, "coalitions": [wrong]}])


def test_more_users_than_any_run_has_are_refused_before_it_runs() -> None:
    def of(coalition: str, *users: int) -> int:
        grid = {"federation.users": list(users)}
        attack = [{**LABELS, "coalitions": [coalition]}]
        return len(campaign(grid=grid, federation={}, attack=attack).cells())

    with pytest.raises(ConfigurationError, match="'5 users': no run has more than 4 users"):
        of("5 users", 3, 4)
    # Where some runs have as many, the others fail by themselves.
    assert of("4 users", 3, 4) == 2
    assert of("user-77", 3, 4) == 2


@settings(max_examples=4, deadline=None)
# Of eight cells one is left after the last stop.
@given(stops=st.lists(st.integers(0, 3), max_size=3).filter(lambda stops: sum(stops) < 8))
def test_a_campaign_that_was_interrupted_ends_with_the_same_results(
    stops: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole, parts = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("parts")
    run_campaign(campaign(), whole, engine=InProcess(), steps=silent)
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            run_campaign(campaign(), parts, engine=InProcess(stop), steps=silent)
    engine = InProcess()
    summary = run_campaign(campaign(), parts, engine=engine, steps=silent)
    assert engine.measured == 8 - sum(stops)  # nothing was measured twice
    assert summary.pending == 0
    assert stored(whole) == stored(parts)


def test_what_does_not_apply_is_a_row_with_its_reason(tmp_path: Path) -> None:
    run_campaign(campaign(), tmp_path, engine=InProcess(), steps=silent)
    with Store(tmp_path, readonly=True) as store:
        rows = store.rows()
    states = {(r.specification.coalition, r.status) for r in rows}
    assert states == {("server", "measured"), ("1 user", "not-applicable")}
    assert all("holds no" in r.reason for r in rows if r.status == "not-applicable")


def test_a_changed_campaign_keeps_what_it_still_wants(tmp_path: Path) -> None:
    run_campaign(campaign(), tmp_path, engine=InProcess(), steps=silent)
    engine = InProcess()
    wider = campaign(grid={"federation.partition": ["iid"], "seed": [1, 2]})
    summary = run_campaign(wider, tmp_path, engine=engine, steps=silent)
    assert (summary.cells, engine.measured) == (4, 2)
    with pytest.raises(OutputExistsError, match="holds the campaign 'small'"):
        run_campaign(campaign(name="other"), tmp_path, engine=InProcess(), steps=silent)


def test_a_report_corrects_for_all_cells_and_names_the_selection(tmp_path: Path) -> None:
    run_campaign(campaign(), tmp_path, engine=InProcess(), steps=silent)
    report = campaign_report(campaign(), tmp_path)
    heads = [f for f in report.findings if f.headline]
    assert report.simultaneous_tests == 4  # measured cells, of which one is the headline
    assert [f.confidence for f in heads] == [pytest.approx(1 - 0.05 / 4)]
    assert heads[0].chosen_from == 4
    assert heads[0].full_title.endswith("worst of 4 cells")
    assert heads[0].setting.startswith("partition = ")
    assert any("leakiest of the cells" in sentence for sentence in report.limitations)
    assert report.complete
    (figure,) = report.figures  # one axis varies besides the seed
    assert figure.title.startswith("Success against partition")
    assert "Pooled over 2 seeds" in figure.caption


def test_results_are_filtered_and_sorted(tmp_path: Path) -> None:
    run_campaign(campaign(), tmp_path, engine=InProcess(), steps=silent)
    with Store(tmp_path, readonly=True) as store:
        rows = flat_rows(store.rows())
    chosen = selected(rows, where=["status=measured", "seed=1"], sort="-value")
    assert {(r["status"], r["seed"]) for r in chosen} == {("measured", 1)}
    values = [r["value"] for r in chosen]
    assert values == sorted(values, reverse=True)
    with pytest.raises(ConfigurationError, match="Did you mean 'metric'"):
        selected(rows, where=["metrik=x"], sort="")


def test_measurements_survive_json_with_numbers_that_are_not_finite() -> None:
    from privaudit.campaigns.cells import Measurement, ScoreTriple
    from privaudit.scoring.estimate import Scores

    scores = Scores("m", "mean", {"a": 1.5, "b": float("nan")}, higher_is_leakier=False)
    made = Measurement(
        "measured", "", (ScoreTriple("m", "dB", scores, scores, None),), {"x": float("inf")}, 2.0
    )
    text = json.dumps(measurement_to_json(made), allow_nan=False)
    read = measurement_from_json(json.loads(text))
    assert read.triples[0].attack.per_target["a"] == 1.5
    assert np.isnan(read.triples[0].attack.per_target["b"])
    assert not read.triples[0].attack.higher_is_leakier
    assert np.isnan(read.diagnostics["x"])


def test_results_of_another_schema_or_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no campaign"):
        Store(tmp_path, readonly=True)
    with Store(tmp_path):
        pass
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE facts SET value = 'privaudit-campaign/99' WHERE name = 'schema'")
    with pytest.raises(ConfigurationError, match="schema 'privaudit-campaign/99'"):
        Store(tmp_path)
    (tmp_path / FILE).write_bytes(b"not a database, but of more than a few bytes of text" * 50)
    with pytest.raises(ConfigurationError, match="not a database"):
        Store(tmp_path)


def _echo(task: Any) -> dict[str, Any]:
    """What a worker of the pool is asked to do in the tests below."""
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "hang":
        time.sleep(600)
    if task == "raise":
        raise ValueError("told")
    if task == "eat":
        _ = np.ones((1500, 1000, 1000), dtype=np.uint8)
        time.sleep(600)
    return {"answer": task}


def test_a_worker_that_dies_hangs_or_raises_costs_one_task(tmp_path: Path) -> None:
    with Pool(_echo, jobs=2, seconds=25, megabytes=1200, logs=tmp_path) as pool:
        tasks = [(str(i), t) for i, t in enumerate(["a", "die", "b", "raise", "eat", "c"])]
        found = dict(pool.results(tasks))
    assert [found[k].result for k in ("0", "2", "5")] == [{"answer": t} for t in "abc"]
    assert "worker process died" in found["1"].reason
    assert found["3"].reason == "ValueError: told"
    assert "the limit is 1,200 MB" in found["4"].reason
    log = found["3"].log
    assert log is not None
    assert "ValueError: told" in log.read_text()


def test_a_task_beyond_its_time_is_ended(tmp_path: Path) -> None:
    with Pool(_echo, jobs=1, seconds=6) as pool:
        found = dict(pool.results([("0", "hang"), ("1", "a")]))
    assert "longer than the limit of 6 s" in found["0"].reason
    assert found["1"].result == {"answer": "a"}


needs_script = pytest.mark.skipif(
    not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"
)


def write(folder: Path) -> Path:
    lines = [
        'name = "small"',
        'protocol = "disue"',
        "[parameters]",
        *(f"{k} = {json.dumps(v)}" for k, v in SMALL["parameters"].items()),
        "[federation]",
        *(f"{k} = {json.dumps(v)}" for k, v in SMALL["federation"].items()),
        "[grid]",
        *(f'"{k}" = {json.dumps(v)}' for k, v in SMALL["grid"].items()),
        "[[attack]]",
        *(f"{k} = {json.dumps(v)}" for k, v in LABELS.items()),
    ]
    file = folder / "campaign.toml"
    file.write_text("\n".join(lines) + "\n")
    assert read_campaign(file) == campaign()
    return file


@needs_script
def test_a_dry_run_lists_every_cell_and_runs_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    ended = privaudit("run", "campaign.toml", "--dry-run", "--json", cwd=tmp_path)
    assert ended.code == 0
    plan = json.loads(ended.out)
    assert (len(plan["cells"]), plan["runs"], plan["missing"]) == (8, 4, 8)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["campaign.toml"]


@needs_script
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "campaign.toml"), "name a folder with -o"),
        (("run", "missing.toml", "--dry-run"), "cannot be read"),
        (("run", "campaign.toml", "-o", "x", "--engine", "dsk"), "Did you mean 'dask'"),
        (("run", "campaign.toml", "-o", "x", "--address", "a:1"), "goes with --engine dask"),
        (("results", "."), "holds no campaign"),
    ],
)
def test_wrong_usage_is_told_on_one_line(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write(tmp_path)
    ended = privaudit(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err
