"""The audit of a recorded run, whoever recorded it: every attack that reads what was sent."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from privaudit import plugins
from privaudit.accounting import OutOfDomainError, budget
from privaudit.attacks.base import Attack
from privaudit.campaigns.assembly import as_row, run_warnings, tool_facts, uncovered_rows
from privaudit.campaigns.auditing import Steps, claim_folder
from privaudit.campaigns.cells import Cell, CellStore, Measurement
from privaudit.campaigns.findings import findings_of, not_run_of, simultaneous_confidence
from privaudit.campaigns.planned import GRANTED, Planned
from privaudit.campaigns.risks import risk_verdict, untested
from privaudit.campaigns.runs import RecordedRun
from privaudit.campaigns.single import single_cell
from privaudit.docstrings import summary_line
from privaudit.errors import (
    ConfigurationError,
    PluginError,
    PrivauditError,
    UnmetRequirementsError,
)
from privaudit.reports.model import (
    AuditReport,
    BudgetRow,
    NotRun,
    SystemUnderTest,
    UncoveredRelease,
)
from privaudit.transcript import Coalition, PartyId, Transcript

__all__ = ["audit_recording", "claim_recording", "small_coalitions"]

_RISKS = ("reconstruction", "inference", "linkability", "singling-out")


def small_coalitions(transcript: Transcript) -> tuple[tuple[PartyId, ...], ...]:
    """Return each server, the last user, each server with that user, and all servers together.

    Of several users the last is taken: in protocols in which users answer one another in order it
    sees the most.
    """
    users = transcript.ids("user")
    servers = tuple(p.id for p in transcript.parties if p.role not in ("user", "pseudonym"))
    found: list[tuple[PartyId, ...]] = [(server,) for server in servers]
    if len(users) > 1:
        found.append((users[-1],))
        found += [(server, users[-1]) for server in servers]
    if len(servers) > 1:
        found.append(servers)
    return tuple(found)


def _relevant(transcript: Transcript) -> Iterator[Attack]:
    """Yield every registered attack that reads a kind of message which the run has."""
    sent = {message.kind for message in transcript.messages}
    for name in plugins.available("attack"):
        try:
            kind = plugins.load("attack", name)
        except PluginError:
            # A broken plug-in is told by privaudit doctor; it does not stop an audit.
            continue
        if sent & set(kind.reads):
            yield kind()


def _cells(run: RecordedRun, *, seed: int) -> tuple[list[Planned], list[NotRun]]:
    """Return every attack by every small coalition, and why some cannot be tried."""
    planned: list[Planned] = []
    unmet: list[NotRun] = []
    for attack in _relevant(run.transcript):
        said = summary_line(type(attack)) or attack.name
        for members in small_coalitions(run.transcript):
            label = " + ".join(members)
            coalition = Coalition(frozenset(members), GRANTED)
            try:
                cell = single_cell(run, attack, coalition, label=label, seed=seed)
            except (UnmetRequirementsError, ConfigurationError) as error:
                unmet.append(
                    NotRun(
                        attack=attack.name,
                        coalition_label=label,
                        status="not-applicable",
                        reason=str(error),
                    )
                )
                continue
            if cell.scorers:
                planned.append(Planned(cell, attack.name, attack.name, said, headline=True))
                continue
            why = (
                "the truth does not lie beside this recording, so that its guesses cannot be scored"
                if run.truth is None
                else "no score fits its guesses and the truth of this recording"
            )
            unmet.append(
                NotRun(
                    attack=attack.name,
                    coalition_label=label,
                    status="not-applicable",
                    reason=why,
                )
            )
    return planned, unmet


class _Claim(BaseModel):
    """What tells the audit of one recording from that of another."""

    recording: str
    seed: int
    delta: float


def claim_recording(run: RecordedRun, out: Path, *, seed: int, delta: float, force: bool) -> None:
    """Take an output folder for the audit of a recorded run; as for audits of protocols.

    Raises
    ------
    OutputExistsError
        If it holds something else and ``force`` is not given.
    """
    claim = _Claim(recording=run.digest, seed=seed, delta=delta)
    claim_folder("recording", claim, out, force=force)


def audit_recording(
    run: RecordedRun,
    out: Path,
    *,
    seed: int = 0,
    delta: float = 1e-5,
    confidence: float = 0.95,
    steps: Steps,
    command: str,
    device: str,
) -> AuditReport:
    """Let every attack that reads a kind of message of the run loose on small coalitions.

    Attacks have their default options; measured cells lie in ``out/cells``, so that the same call
    resumes. Without the truth beside the recording only attacks that make their own are scored:
    those that link the rounds of users, who go under pseudonyms.

    The ledger is made if the protocol of the recording is installed.

    Raises
    ------
    ConfigurationError
        If the truth was not handed over and no attack can be scored without it.
    """
    planned, unmet = _cells(run, seed=seed)
    if run.truth is None and not planned:
        raise ConfigurationError(
            "the truth does not lie beside this recording, so no attack can be scored; privaudit "
            "attack RUN_DIR counts guesses, privaudit views RUN_DIR shows who saw what"
        )
    started = time.perf_counter()
    protocol = run.protocol or "an unnamed protocol"
    store = CellStore(out / "cells")

    def done(position: int, total: int, cell: Cell, measurement: Measurement) -> None:
        steps(
            "attacks", position, total, f"{cell.attack.name} by {cell.label}: {measurement.status}"
        )

    measured = store.measured([item.cell for item in planned], done=done)
    results = list(zip(planned, measured, strict=True))
    _, tests = simultaneous_confidence(results, confidence=confidence)
    findings = findings_of(results, confidence=confidence)
    ledger = _ledger(run, protocol, delta)
    return AuditReport(
        title=f"Leakage report: a recorded run of {protocol}",
        tool=tool_facts(device),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=seed,
        complete=run.complete and all(m.status != "failed" for m in measured),
        system=_system(run, protocol, ledger.unit),
        verdicts=tuple(
            risk_verdict(risk, findings, words={})
            if any(f.risk == risk for f in findings)
            else untested(
                risk,
                "No attack on this risk applied to this run."
                if run.truth is not None
                else "Without the truth beside the recording no attack on this risk is scored.",
            )
            for risk in _RISKS
        ),
        findings=tuple(findings),
        not_run=_reasons([*unmet, *not_run_of(results)]),
        exposure=(),
        budgets=ledger.budgets,
        uncovered=ledger.uncovered,
        budget_statements=ledger.statements,
        claims=(),
        utilities=(),
        figures=(),
        galleries=(),
        trust_assumptions=(
            "No more parties pool what they see than in the coalitions that were tried.",
            "The recording holds all that was sent: no attack reads what was not recorded.",
        ),
        not_tested=("Attacks with other options, larger coalitions, other runs.",),
        recommendations=("Look at the worst figures with privaudit attack, one by one.",),
        limitations=(
            "An attack that fails here shows that this attack failed, not that the data are safe.",
            "Attacks were made with their default options on one recorded run.",
            *(
                ["The truth does not lie beside this recording: most attacks were not scored."]
                if run.truth is None
                else ()
            ),
        ),
        # Runs that ended early are among the warnings of their outcomes.
        warnings=(
            *run_warnings({"run": run.outcome}),
            *(note for note in run.notes if not run.complete),
            *ledger.flags,
        ),
        confidence=confidence,
        simultaneous_tests=tests,
        reproduce=(command,),
        digests={"run": run.digest},
        seconds={"attacks": time.perf_counter() - started},
    )


def _reasons(rows: Sequence[NotRun]) -> tuple[NotRun, ...]:
    """Return why attacks did not run: one row an attack and reason, with all whom it concerns."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        # Reasons name the coalition; without that they are few.
        parties = row.coalition_label.split(" + ")
        reason = row.reason
        for name in (row.coalition_label, " + ".join(sorted(parties))):
            reason = reason.replace(name, "the coalition")
        found.setdefault((row.attack, row.status, reason), []).append(row.coalition_label)
    return tuple(
        NotRun.model_validate(
            {
                "attack": attack,
                "coalition_label": "; ".join(dict.fromkeys(labels)),
                "status": status,
                "reason": reason,
            }
        )
        for (attack, status, reason), labels in found.items()
    )


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What the ledger of a run says, and in words why it says nothing of a budget."""

    budgets: tuple[BudgetRow, ...] = ()
    uncovered: tuple[UncoveredRelease, ...] = ()
    flags: tuple[str, ...] = ()
    unit: str = "not stated in this recording"
    statements: tuple[str, ...] = ()


def _no_budget(why: str) -> tuple[str, ...]:
    return (
        f"No privacy budget was computed: {why}. Whether anything that was sent has differential "
        "privacy is open.",
    )


def _ledger(run: RecordedRun, protocol: str, delta: float) -> _Ledger:
    known = protocol in plugins.available("protocol")
    try:
        events = plugins.load("protocol", protocol)().events(run.transcript)
    except (PluginError, PrivauditError, KeyError) as error:
        why = (
            f"no ledger could be made of this run of {protocol}"
            if known
            else f"{protocol} is not a protocol that is installed here, and a recording does not "
            "declare how a value was randomised"
        )
        return _Ledger(
            flags=(f"no ledger could be made of this run: {error}",), statements=_no_budget(why)
        )
    if not events:
        return _Ledger(
            flags=("the ledger of this run is empty",),
            statements=_no_budget(f"{protocol} declares no mechanism for the messages of this run"),
        )
    try:
        spent = budget(events, delta=delta)
    except OutOfDomainError as error:
        return _Ledger(
            flags=(f"the ledger of this run is not accounted for: {error}",),
            statements=_no_budget("a mechanism of this run is outside of what is proven here"),
        )
    return _Ledger(
        tuple(as_row(BudgetRow, row) for row in spent.rows),
        uncovered_rows(spent.uncovered, parties=run.transcript.ids("user"), word="every user"),
        tuple(spent.flags),
        "; ".join(dict.fromkeys(event.unit for event in events)),
    )


def _system(run: RecordedRun, protocol: str, unit: str) -> SystemUnderTest:
    model: Any = run.transcript.public.get("model", {})
    known = isinstance(model, dict) or hasattr(model, "get")
    users, rounds = len(run.transcript.ids("user")), int(run.outcome.get("rounds", 0))
    return SystemUnderTest(
        protocol=protocol,
        protocol_version="as recorded",
        claim_under_test="None is stated; this report shows what the attacks made of the run.",
        privacy_unit=unit,
        dataset=run.dataset or "unnamed data",
        data_is_public=False,
        users=users,
        rounds=rounds,
        model=str(model.get("name", "")) if known else "",
        dimension=int(model.get("dimension", 0)) if known else 0,
        parameters={},
        actors={p.id: p.description or p.role for p in run.transcript.parties if p.role != "user"},
        deployment_model="Federated",
        outcome=str(run.outcome.get("status", "incomplete")),
        run_sentence=(
            f"A run of {protocol} was read from a recording: {users} users, "
            f"{len(run.transcript.messages):,} messages."
        ),
    )
