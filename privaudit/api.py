"""The package from Python: simulate or open a run, attack it, audit it, save the report."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaudit.attacks.presets import configured_attack
from privaudit.campaigns.auditing import audit_of, claim_folder, perform
from privaudit.campaigns.cells import measure
from privaudit.campaigns.coalitions import granted_without, members_of
from privaudit.campaigns.folders import given_back, refuse_campaign
from privaudit.campaigns.recordings import audit_recording
from privaudit.campaigns.runs import RecordedRun, open_run
from privaudit.campaigns.simulation import data_of, outcome_json, simulation_config
from privaudit.campaigns.simulation import simulate as run_protocol
from privaudit.campaigns.single import single_cell
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.reports import render_html, write_report
from privaudit.reports.model import AuditReport
from privaudit.scoring.estimate import Estimate, compare, verdict
from privaudit.transcript import Coalition, MemoryRecorder

__all__ = ["AttackResult", "Report", "attack", "audit", "load", "simulate"]


def simulate(
    protocol: str = "pa-cfl",
    *,
    parameters: Mapping[str, Any] | None = None,
    federation: Mapping[str, Any] | None = None,
    seed: int = 0,
    data_root: Path | str | None = None,
) -> RecordedRun:
    """Run a protocol and return what every party saw, in memory.

    Parameters
    ----------
    protocol : str
        As ``privaudit list protocols`` shows it.
    parameters, federation : mapping
        As in ``privaudit simulate --config``.

    Returns
    -------
    RecordedRun
        With ``transcript`` (whose ``view`` gives what a coalition knows) and ``truth``.

    Raises
    ------
    PluginError, ConfigurationError, DatasetNotFoundError
        If the protocol, a parameter or the data set is unknown or wrong.

    Examples
    --------
    >>> run = simulate("fedavg", parameters={"rounds": 1, "model": "mlp"}, federation={"users": 3})
    >>> len(run.transcript.messages)
    6
    """
    config = simulation_config(
        {
            "protocol": protocol,
            "parameters": dict(parameters or {}),
            "federation": dict(federation or {}),
            "seed": seed,
        },
        where="simulate",
    )
    data = data_of(config, data_root=None if data_root is None else Path(data_root))
    recorder = MemoryRecorder()
    outcome = run_protocol(config, data, recorder=recorder)
    auxiliary: Any = data.auxiliary
    rows = hasattr(auxiliary, "features")
    return RecordedRun(
        transcript=recorder.transcript(),
        truth=recorder.truth(),
        auxiliary=None if rows else auxiliary,
        outcome=outcome_json(outcome),
        digest=f"in-memory:{config.model_dump_json()}",
        complete=True,
        dataset=config.federation.dataset,
        auxiliary_rows=auxiliary if rows else None,
        protocol=protocol,
    )


def load(
    folder: Path | str, *, data_root: Path | str | None = None, reader: str = ""
) -> RecordedRun:
    """Read a recorded run in any registered format; see ``docs/recording.md``.

    Parameters
    ----------
    reader : str
        As ``privaudit list readers`` shows it; the one that recognises the recording if empty.

    Raises
    ------
    CorruptRecordingError
        If there is no sound recording.
    """
    root = None if data_root is None else Path(data_root)
    return open_run(Path(folder), data_root=root, reader=reader)


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What an attack by one coalition gave.

    Attributes
    ----------
    name, coalition : str
    figures : tuple of Estimate
        Each with its interval, baseline and control; empty if the truth is not known.
    verdicts : tuple of str
        One a figure.
    diagnostics : mapping
    """

    name: str
    coalition: str
    figures: tuple[Estimate, ...]
    verdicts: tuple[str, ...]
    diagnostics: Mapping[str, float]

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(text)}</td>"
                for text in (
                    f.metric,
                    f"{f.value:.3g} [{f.low:.3g}, {f.high:.3g}]",
                    "" if f.baseline is None else f"{f.baseline.value:.3g}",
                    "" if f.control is None else f"{f.control.value:.3g}",
                    str(f.n),
                    judged,
                )
            )
            + "</tr>"
            for f, judged in zip(self.figures, self.verdicts, strict=True)
        )
        head = "".join(
            f"<th>{name}</th>"
            for name in ("metric", "value", "baseline", "control", "n", "verdict")
        )
        title = html.escape(f"{self.name} by {self.coalition}")
        return f"<table><caption>{title}</caption><tr>{head}</tr>{rows}</table>"


def attack(
    run: RecordedRun,
    name: str,
    *,
    coalition: str | Sequence[str],
    options: Mapping[str, Any] | None = None,
    withhold: str | Sequence[str] = (),
    seed: int = 0,
    confidence: float = 0.95,
) -> AttackResult:
    """Make one attack on what a coalition saw of a run.

    Parameters
    ----------
    name : str
        As ``privaudit list attacks`` shows it, or a preset.
    coalition : str or sequence of str
        Parties that pool what they saw; as one text, joined by ``+`` as campaigns write them
        (``"management-server + 1 user"``).
    options : mapping
        Of the attack.
    withhold : str or sequence of str
        Capability or capabilities that are not granted.

    Raises
    ------
    UnmetRequirementsError
        If the attack does not apply to this run and coalition; it says why.
    PluginError, ConfigurationError
        If the attack, a party or an option is unknown, or the attack failed.
    """
    made = configured_attack(name, options or {})
    granted = granted_without([withhold] if isinstance(withhold, str) else withhold)
    if isinstance(coalition, str):
        coalition = members_of(coalition, run.transcript)
    members = tuple(coalition)
    label, allied = " + ".join(members), Coalition(frozenset(members), granted)
    cell = single_cell(run, made, allied, label=label, seed=seed)
    result = measure(cell)
    if result.status != "measured":
        raise UnmetRequirementsError(result.reason)
    figures = tuple(
        compare(t.attack, baseline=t.baseline, control=t.control, confidence=confidence)
        for t in result.triples
    )
    return AttackResult(made.name, label, figures, tuple(map(verdict, figures)), result.diagnostics)


@dataclass(frozen=True, slots=True)
class Report:
    """A leakage report; notebooks show its HTML.

    Attributes
    ----------
    content : AuditReport
        Everything, as in ``report.json``.
    """

    content: AuditReport

    def __repr__(self) -> str:
        """Return the title and what was found, not the whole content."""
        found = ", ".join(f"{v.risk}: {v.verdict}" for v in self.content.verdicts)
        incomplete = "" if self.content.complete else ", incomplete"
        return (
            f"Report({self.content.title!r}, {len(self.content.findings)} figures{incomplete}; "
            f"{found})"
        )

    def save(
        self, folder: Path | str, *, formats: Sequence[str] = ("html", "json", "md")
    ) -> tuple[Path, ...]:
        """Write the report and return its files."""
        return write_report(self.content, Path(folder), formats=formats)

    def _repr_html_(self) -> str:
        """Return the report in a frame of its own, so that its styles stay in it."""
        page = html.escape(render_html(self.content), quote=True)
        return (
            f'<iframe srcdoc="{page}" width="100%" height="800" sandbox="allow-scripts"></iframe>'
        )


def _silent(stage: str, done: int, total: int, detail: str = "") -> None:
    return


def audit(
    subject: str | RecordedRun,
    out: Path | str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    data_root: Path | str | None = None,
    jobs: int = 1,
    seed: int = 0,
) -> Report:
    """Audit a protocol by name, as ``privaudit audit`` does, or one run of any protocol.

    Parameters
    ----------
    subject : str or RecordedRun
    out : path or None
        Folder for runs and finished cells, from which the same call resumes; a temporary one that
        is removed if None.
    config : mapping
        Of a protocol's audit, as in ``--config``; a run has its configuration already.
    jobs : int
        Worker processes of a protocol's audit.

    Raises
    ------
    ConfigurationError
        If no audit is known for the name, a setting is wrong, or a run comes without its truth or
        with a ``config``.
    OutputExistsError
        If the folder holds a campaign, or the audit of something else.
    """
    if isinstance(subject, RecordedRun) and config is not None:
        raise ConfigurationError(
            f"audit: config = {dict(config)!r} is for the audit of a protocol by name; a run's "
            "parameters are what they are, so leave config out, or give them to privaudit.simulate"
        )
    if out is None:
        with tempfile.TemporaryDirectory(prefix="privaudit-") as folder:
            return audit(subject, folder, config=config, data_root=data_root, jobs=jobs, seed=seed)
    refuse_campaign(Path(out))
    folder_, root = Path(out), None if data_root is None else Path(data_root)
    if isinstance(subject, RecordedRun):
        return Report(
            audit_recording(
                subject,
                folder_,
                seed=seed,
                steps=_silent,
                command="privaudit.audit(run)",
                device="CPU",
            )
        )
    audited = audit_of(subject)
    resolved = validated(audited.Config, {"seed": seed, **(config or {})}, where="audit")
    audited.check_inputs(resolved, data_root=root)
    with given_back(folder_):
        claim_folder(subject, resolved, folder_, force=False)
        return Report(
            perform(
                audited,
                resolved,
                folder_,
                data_root=root,
                jobs=jobs,
                steps=_silent,
                command=f"privaudit.audit({subject!r})",
                device="CPU, one thread a process",
            )
        )
