"""Every attack on every kind of view: what comes of it, and the page that says so.

    python tests/attack_matrix.py > docs/attacks/applicability.md

Runs are small, searches of a step or two: whether an attack runs is asked, not how well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from privaudit import plugins
from privaudit.attacks.base import Attack
from privaudit.attacks.indices import PRESETS
from privaudit.campaigns.cells import Measurement, measure
from privaudit.campaigns.pq_mds.adversaries import Numbers, adversary_cell, declared_cell
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.simulation import data_of, simulate, simulation_config
from privaudit.campaigns.single import single_cell
from privaudit.errors import PrivauditError, UnmetRequirementsError
from privaudit.transcript import Capability, Coalition, MemoryRecorder

MS, AS, SERVER = "management-server", "aggregation-server", "server"

#: Options by which attacks search, or simulate, as little as possible.
SHORT: Mapping[str, Any] = {
    "iterations": 1,
    "restarts": 1,
    "refinements": 1,
    "refinement_steps": 1,
    "feature_iterations": 1,
    "tries": 10,
    "starts": 1,
    "evaluations": 2,
    "profile_records": 4,
    "simulated_users": 20,
}
#: Options of single attacks.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "inference/labels-from-permutation": {"simulated_users": 5, "records": (8,)},
    "inference/labels-from-noised-remainder": {"simulated_users": 1, "rounds": 1, "records": 8},
    "inference/property": {"simulated_users": 10},
}

HORIZONTAL: Mapping[str, Any] = {
    "federation": {
        "dataset": "digits",
        "users": 6,
        "partition": "dirichlet",
        "records_per_user": 8,
        "auxiliary_records": 60,
    },
    "parameters": {"model": "mlp", "rounds": 2, "local_epochs": 1},
}
SINGLE: Mapping[str, Any] = {"partition": "single-record", "records_per_user": None}


def horizontal(
    protocol: str, federation: Mapping[str, Any] | None = None, **parameters: Any
) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "federation": {**HORIZONTAL["federation"], **(federation or {})},
        "parameters": {**HORIZONTAL["parameters"], **parameters},
    }


PA_CFL = {"similarity": "jaccard", "top_k_fraction": 0.005}
DISUE = {"distillation": "none", "participation": 1.0}
FOUR = {"users": 4}
SMALL_NUMBERS = {"k1": 160, "k2": 60, "k3": 32, "k4": 32, "quantisation_bits": 8}
#: Runs by name.
RUNS: Mapping[str, dict[str, Any]] = {
    "PA-CFL, a gradient of one record": horizontal(
        "pa-cfl", SINGLE, update="gradient", **{**PA_CFL, "rounds": 1}
    ),
    "PA-CFL, local training": horizontal("pa-cfl", **PA_CFL),
    "PA-CFL*, without protection": horizontal("pa-cfl", protection=False, **PA_CFL),
    "FedAvg, a gradient of one record": horizontal("fedavg", SINGLE, update="gradient", rounds=1),
    "FedAvg, local training": horizontal("fedavg"),
    "DP-FedAvg, local training": horizontal("dp-fedavg"),
    "DisUE, models in the clear": horizontal("disue", similarity="plain", **DISUE),
    "DisUE, PCSC relayed": horizontal("disue", FOUR, similarity="relay", **DISUE, **SMALL_NUMBERS),
    "DisUE, secret shares and secure aggregation": horizontal(
        "disue", similarity="secret_shares", aggregation="secagg", **DISUE
    ),
    "PQ-MDS": {
        "protocol": "pq-mds",
        "federation": {"dataset": "digits", "split": "halves", "rows": 120, "auxiliary_rows": 60},
        "parameters": {"subspaces": 4, "codewords": 8, "reference": False, "initialisations": 1},
    },
}
_PA_CFL_COALITIONS = (
    (MS,), (AS,), (MS, AS), (MS, "user-1"), (AS, "user-1"), ("user-1", "user-2"),
)  # fmt: skip
_SERVER_COALITIONS = ((SERVER,), (SERVER, "user-1", "user-2"), ("user-1", "user-2"))
COALITIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **{name: _PA_CFL_COALITIONS for name in RUNS if name.startswith("PA-CFL,")},
    "PA-CFL*, without protection": ((MS,), (AS,), (AS, "user-1")),
    **{name: _SERVER_COALITIONS for name in RUNS if name.startswith(("FedAvg", "DP-", "DisUE"))},
    "PQ-MDS": ((SERVER,),),
}


@dataclass(frozen=True)
class ViewKind:
    """Whose view of which run, and what was done to it.

    ``cut`` is the share of the messages that the recording holds: 1 for a whole run, 0.5 for one
    that was interrupted, 0 for one of which nothing but the beginning is left.
    """

    run: str
    members: tuple[str, ...] = ()
    threat_model: str = ""
    cut: float = 1.0

    @property
    def who(self) -> str:
        if self.threat_model:
            return self.threat_model
        short = {MS: "MS", AS: "AS"}
        names = [short.get(member, member.replace("-", " ")) for member in self.members]
        state = {1.0: "", 0.5: ", interrupted", 0.0: ", empty"}[self.cut]
        return " + ".join(names) + state

    @property
    def label(self) -> str:
        return f"{self.run}: {self.who}"


def whole() -> list[ViewKind]:
    views = [ViewKind(run, members) for run, some in COALITIONS.items() for members in some]
    return views + [ViewKind("PQ-MDS", threat_model=name) for name in PRESETS]


def cut() -> list[ViewKind]:
    """Every run, interrupted and empty, as its largest coalition sees it."""
    largest = {
        run: (MS, AS, "user-1") if run.startswith("PA-CFL") else max(some, key=len)
        for run, some in COALITIONS.items()
    }
    return [
        ViewKind(run, members, cut=share)
        for run, members in largest.items()
        for share in (0.5, 0.0)
    ]


@cache
def recorded_run(name: str) -> RecordedRun:
    config = simulation_config({**RUNS[name], "seed": 1}, where=name)
    recorder = MemoryRecorder()
    data = data_of(config)
    simulate(config, data, recorder=recorder)
    images = data.auxiliary if hasattr(data.auxiliary, "images") else None
    return RecordedRun(
        transcript=recorder.transcript(),
        truth=recorder.truth(),
        auxiliary=images,
        outcome={},
        digest=name,
        complete=True,
        dataset="digits",
        auxiliary_rows=None if images is not None else data.auxiliary,
        protocol=config.protocol,
    )


@cache
def run_of(view: ViewKind) -> RecordedRun:
    run = recorded_run(view.run)
    kept = run.transcript.messages[: int(view.cut * len(run.transcript.messages))]
    return replace(run, transcript=replace(run.transcript, messages=kept))


@cache
def attack_of(name: str) -> Attack:
    kind = plugins.load("attack", name)
    known = {f.name for f in fields(kind)} if is_dataclass(kind) else set()
    options = {key: value for key, value in SHORT.items() if key in known}
    if "placing" in known:
        options["placing"] = attack_of("inversion/blind-coordinates")
    attack: Attack = kind(**{**options, **OPTIONS.get(name, {})})
    return attack


@cache
def outcome(attack: Attack, view: ViewKind) -> Measurement:
    """Measure as a campaign does; an attack that raises is a measurement that failed."""
    run = run_of(view)
    try:
        if view.threat_model:
            numbers = Numbers(20, 20, 20, None, 0, 0)
            cell = adversary_cell(run, attack, view.threat_model, numbers, setting="")
        else:
            coalition = Coalition.of(*view.members, capabilities=Capability)
            if attack.name.startswith("indices/"):
                cell = declared_cell(run, attack, coalition, label=view.label, seed=0)
            else:
                cell = single_cell(run, attack, coalition, label=view.label, seed=0)
    except UnmetRequirementsError as error:
        return Measurement("not-applicable", str(error), (), {}, 0.0)
    except PrivauditError as error:
        return Measurement("failed", f"{type(error).__name__}: {error}", (), {}, 0.0)
    return measure(cell)


def own_attacks() -> tuple[str, ...]:
    """Return the registered attacks of this package, not those of plug-ins."""
    return tuple(
        name
        for name, entries in plugins.available("attack").items()
        if entries[0].value.startswith("privaudit.")
    )


def row(name: str, run: str) -> str:
    """Return an attack's row in the table of a run, or "" if it runs on none of its views."""
    cells = [outcome(attack_of(name), view).status for view in every() if view.run == run]
    if "measured" not in cells:
        return ""
    marks = ["runs" if status == "measured" else "–" for status in cells]
    return f"| `{name}` | {' | '.join(marks)} |"


def page() -> str:
    """Return the page that says which attack runs on which view."""
    lines = [BEGINNING]
    for run in RUNS:
        views = [view for view in every() if view.run == run]
        lines += ["", f"## {run}", ""]
        lines.append(f"| attack | {' | '.join(view.who for view in views)} |")
        lines.append("|---" * (len(views) + 1) + "|")
        lines += [found for name in own_attacks() if (found := row(name, run))]
    return "\n".join(lines) + "\n"


BEGINNING = """\
# Which attack runs on which view

Every registered attack was made on every kind of view below, with every capability granted that
the run does not refute: `runs` where it gave results, `–` where it was not applicable. Attacks
that are in none of a run's rows are not applicable there. Nothing else happened: no attack raised,
and every refusal says in words what is missing; `privaudit attack run` prints it. Whether an attack
that runs gains anything is another matter: see the pages of the attacks, and
[what was reached](fidelity.md).

MS and AS are PA-CFL's management and aggregation server; columns of PQ-MDS are the
[threat models](indices.md). A run that was *interrupted* holds half of its messages, an *empty* one
none. Runs are of 4 to 6 users and two rounds, so that attacks that need more (similar rounds,
groups that sum to zero) may be missing for that reason; membership and property inference are asked
with records drawn from the run. The page is made by `python tests/attack_matrix.py`, and a test
holds it to what the attacks do."""


@cache
def every() -> tuple[ViewKind, ...]:
    return (*whole(), *cut())


if __name__ == "__main__":
    print(page(), end="")
