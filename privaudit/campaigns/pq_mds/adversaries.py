"""Adversaries of an audit: a threat model's view of a recorded run, and what it is granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Attack, Knowledge
from privaudit.attacks.control import leaked
from privaudit.attacks.indices import OUTSIDER, PRESETS, Grant, grant
from privaudit.attacks.indices._persons import NEEDED
from privaudit.attacks.indices.granting import whole_table
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.records import record_scorers, row_control
from privaudit.campaigns.runs import RecordedRun
from privaudit.datasets.vertical import AuxiliaryRows, Column, VerticalData, VerticalParty
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.pq_mds import kinds
from privaudit.scoring.records import person_truth
from privaudit.transcript import Capability, Coalition, Transcript, Truth

__all__ = [
    "LABELS",
    "Numbers",
    "adversary_cell",
    "data_of_run",
    "declared_cell",
    "fitting_numbers",
    "spread_of",
]

#: The threat models in a few words, as labels of coalitions.
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "hbc_server": "server",
        "hbc_party": "1 party, attribute of some rows",
        "server_known": "server, some rows known",
        "server_aux": "server, similar records",
        "server_plus_A": "server + 1 party, some rows known",
        "outsider_known": "stranger, some rows known",
        "outsider_aux": "stranger, similar records",
        "codebook_insider": "server with codebooks (upper bound)",
    }
)

#: Fewest rows of which an audit can grant some and look for others.
LEAST_ROWS = 40
#: Others among the candidates from which hits at one false alarm in a hundred can be counted.
_OTHERS = 100

_UPLOADS = (kinds.INDICES, kinds.CODES)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How much adversaries know and how many targets there are.

    Attributes
    ----------
    known : int
        Rows whose record, or whose attribute, is known.
    persons : int
        Persons that are looked for.
    targets : int
        Rows on which reconstructions are scored.
    image_shape : tuple of int or None
        Where records are pictures.
    examples : int
        Reconstructed records to keep for the report; 0 for none.
    seed : int
    """

    known: int
    persons: int
    targets: int
    image_shape: tuple[int, int, int] | None
    examples: int
    seed: int


def fitting_numbers(rows: int, *, known: int, persons: int) -> tuple[int, int]:
    """Return how many rows are known and how many persons looked for: a quarter each at most.

    Raises
    ------
    ConfigurationError
        If there are too few rows for an audit.
    """
    if rows < LEAST_ROWS:
        raise ConfigurationError(
            f"an audit needs {LEAST_ROWS} rows or more, of which an adversary is granted some and "
            f"looks for others; there are {rows}"
        )
    return min(known, rows // 4), min(persons, rows // 4)


def data_of_run(run: RecordedRun) -> VerticalData:
    """Return the data of a run from its truth, in the run's order of rows."""
    truth = run.truth or Truth()
    ids = np.asarray(truth.get(kinds.ROWS, "ids"), dtype=np.int64)
    labels = truth.targets[kinds.ROWS].get("labels")
    parties = []
    for name in run.transcript.ids(kinds.DATA_PARTY_ROLE):
        positions = np.asarray(truth.get(name, "columns"), dtype=np.int64)
        features = np.asarray(truth.get(name, "features"), dtype=np.float32)
        columns = tuple(Column(f"column-{position}") for position in positions)
        parties.append(VerticalParty(name, ids, features, columns, positions))
    width = sum(len(party.columns) for party in parties)
    rest = run.auxiliary_rows or AuxiliaryRows(np.zeros((0, width), dtype=np.float32))
    return VerticalData(
        dataset=run.dataset,
        parties=tuple(parties),
        labels=None if labels is None else np.asarray(labels, dtype=np.int64),
        classes=0 if labels is None else int(np.max(labels)) + 1,
        auxiliary=rest,
    )


@lru_cache(maxsize=64)
def _leaked(run: RecordedRun, seed: int) -> Transcript:
    return leaked(
        run.transcript,
        kinds=_UPLOADS,
        ids=kinds.ROWS,
        outsider=OUTSIDER,
        rng=np.random.default_rng([seed, 21]),
    )


@lru_cache(maxsize=64)
def _granted(
    run: RecordedRun,
    capabilities: frozenset[Capability],
    numbers: Numbers,
    noise: float,
    columns: tuple[int, ...] | None,
) -> Grant:
    """Return what an adversary is granted; all know the same rows and look for the same persons."""
    data = data_of_run(run)
    wanted = set(capabilities)
    # What the data do not hold cannot be granted; the attack then says what is missing.
    if data.labels is None:
        wanted.discard(Capability.KNOWN_ATTRIBUTES)
    if len(data.auxiliary) < 2:
        wanted -= {Capability.AUXILIARY_DATA, Capability.CANDIDATE_LIST}
    return grant(
        frozenset(wanted),
        data,
        run.transcript,
        rng=np.random.default_rng([numbers.seed, 22]),
        known=numbers.known,
        persons=numbers.persons,
        noise=noise,
        columns=None if columns is None else np.asarray(columns, dtype=np.int64),
    )


@lru_cache(maxsize=8)
def _targets(run: RecordedRun, numbers: Numbers, count: int) -> tuple[str, ...]:
    """Return rows that no adversary knows, drawn at random, at most ``count``."""
    ids = np.asarray((run.truth or Truth()).get(kinds.ROWS, "ids"), dtype=np.int64)
    order = np.random.default_rng([numbers.seed, 22]).permutation(len(ids))
    unknown = ids[order[numbers.known :]]
    chosen = np.random.default_rng([numbers.seed, 23]).permutation(unknown)[:count]
    return tuple(f"row-{row}" for row in chosen)


def spread_of(run: RecordedRun) -> float:
    """Return the root mean square of the columns' standard deviations, a unit for noise."""
    table: npt.NDArray[np.float64] = whole_table(data_of_run(run))
    return float(np.sqrt(table.var(axis=0).mean()))


def adversary_cell(
    run: RecordedRun,
    attack: Attack,
    preset: str,
    numbers: Numbers,
    *,
    setting: str,
    noise: float = 0.0,
    columns: tuple[int, ...] | None = None,
    keep: bool = False,
    metrics: int | None = None,
) -> Cell:
    """Return the cell of an attack under a threat model.

    Parameters
    ----------
    setting : str
        What a reader must know of the run.
    noise : float
        Standard deviation of the errors in the copies of persons' records.
    columns : tuple of int, optional
        The columns that those copies hold; all by default.
    metrics : int or None
        How many of the attack's metrics to measure, of membership the area alone; all if None.
    """
    model = PRESETS[preset]
    transcript = _leaked(run, numbers.seed) if model.principal == "outsider" else run.transcript
    return _cell(
        run,
        attack,
        model.coalition(transcript),
        _granted(run, model.capabilities, numbers, noise, columns),
        numbers,
        transcript=transcript,
        label=LABELS[preset],
        setting=setting,
        keep=keep,
        metrics=metrics,
    )


def declared_cell(
    run: RecordedRun, attack: Attack, coalition: Coalition, *, label: str, seed: int
) -> Cell:
    """Return the cell of an attack by any coalition, which is granted what the attack needs.

    Raises
    ------
    UnmetRequirementsError
        If the attack needs knowledge, and the truth to make it of is not beside the recording.
    """
    needed = attack.requires | NEEDED.get(getattr(attack, "by", ""), frozenset())
    if run.truth is None:
        if needed:
            raise UnmetRequirementsError(
                f"attack '{attack.name}' needs {', '.join(sorted(needed))}, which is made of the "
                "truth of a simulated run; no truth lies beside this recording. privaudit audit "
                "pq-mds simulates a run and grants it"
            )
        return _cell(
            run,
            attack,
            coalition,
            Grant(Knowledge(), MappingProxyType({})),
            Numbers(0, 0, 0, None, 0, seed),
            transcript=run.transcript,
            label=label,
            setting="",
            keep=True,
            metrics=None,
        )
    if "ids" not in run.truth.targets.get(kinds.ROWS, {}):
        raise UnmetRequirementsError(
            f"attack '{attack.name}' reads runs of pq-mds; the truth of this run names no rows"
        )
    rows = len(run.truth.get(kinds.ROWS, "ids"))
    known, persons = fitting_numbers(rows, known=100, persons=150)
    numbers = Numbers(known, persons, rows, None, 1, seed)
    return _cell(
        run,
        attack,
        coalition,
        _granted(run, needed & coalition.capabilities, numbers, 0.0, None),
        numbers,
        transcript=run.transcript,
        label=label,
        setting=f"{known} known rows" if needed else "",
        keep=True,
        metrics=None,
    )


def _cell(
    run: RecordedRun,
    attack: Attack,
    coalition: Coalition,
    given: Grant,
    numbers: Numbers,
    *,
    transcript: Transcript,
    label: str,
    setting: str,
    keep: bool,
    metrics: int | None,
) -> Cell:
    others = [p for p in run.transcript.ids(kinds.DATA_PARTY_ROLE) if p not in coalition.members]
    truth = run.truth or Truth()
    strangers = sum(row is None for row in given.persons.values())
    rate = 0.01 if strangers >= _OTHERS else 0.1 if strangers >= _OTHERS // 10 else None
    records = attack.risk == "reconstruction" or attack.name == "indices/cross-party"
    # A class is right or wrong: it takes more rows to tell two shares apart than two errors.
    attribute = attack.name == "indices/cluster-attribute"
    scored = numbers.targets * 4 if attribute else numbers.targets
    scorers = record_scorers(
        attack,
        parties=others,
        pictures=numbers.image_shape is not None and len(others) == len(truth.targets) - 1,
        false_positives=rate if metrics is None else None,
    )
    return Cell(
        attack=attack,
        coalition=coalition,
        label=label,
        transcript=transcript,
        digest=run.digest
        if transcript is run.transcript
        else f"{run.digest}:leaked:{numbers.seed}",
        truth=replace(
            truth, targets={**truth.targets, **person_truth(dict(given.persons)).targets}
        ),
        knowledge=given.knowledge,
        scorers=() if run.truth is None else scorers[:metrics],
        setting=setting,
        keep_guesses=keep and numbers.examples > 0,
        seed=numbers.seed,
        control=row_control(attack, len(run.transcript.public_arrays[kinds.ROWS])),
        targets=frozenset(_targets(run, numbers, scored))
        if (records or attribute) and run.truth is not None
        else None,
    )
