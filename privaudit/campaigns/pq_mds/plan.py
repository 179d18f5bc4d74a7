"""Which attacks an audit of PQ-MDS makes under which threat models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from privaudit.attacks.base import Attack
from privaudit.attacks.indices import (
    PRESETS,
    AuxiliaryAlignment,
    ClusterAttribute,
    CodeRecovery,
    CrossPartyInference,
    FrequencyMatching,
    IndexMembership,
    IntegerGrid,
    KnownSampleReconstruction,
    RecordLinking,
    SinglingOut,
)
from privaudit.attacks.indices._persons import By
from privaudit.campaigns.planned import Planned
from privaudit.campaigns.pq_mds.adversaries import LABELS, Numbers, adversary_cell, spread_of
from privaudit.campaigns.runs import RecordedRun
from privaudit.protocols.pq_mds import kinds
from privaudit.reports.model import NotRun
from privaudit.transcript import Truth

__all__ = ["EXAMPLES", "not_planned_main", "plan_main", "plan_setting", "plan_single_columns"]

#: Heading of the gallery and of the table of reconstructed rows.
EXAMPLES = "Records rebuilt from uploaded indices"

_WORDS: dict[str, tuple[str, str]] = {
    "indices/code-recovery": (
        "Codes read off the indices",
        "Scaling gives codewords new names and nothing more: equal indices are equal codes. Needs "
        "no knowledge at all.",
    ),
    "indices/known-sample": (
        "Records rebuilt by an adversary that knows some rows",
        "The known rows show what each index stands for; the same index in another row then gives "
        "that part of its record. An error of 0 is a perfect copy, 1 is the average record.",
    ),
    "indices/auxiliary-alignment": (
        "Records rebuilt without knowing a single row",
        "The adversary runs the protocol on other records of the same population and matches the "
        "geometry of the indices. An error of 0 is a perfect copy, 1 is the average record.",
    ),
    "indices/frequency-matching": (
        "Records rebuilt from frequencies alone",
        "A negative control: without the geometry of the indices there is little to match.",
    ),
    "indices/cross-party": (
        "One party learns the other parties' columns",
        "The party pools its own columns with the others' indices. The baseline is what its own "
        "columns let it guess, with the same known rows; only what exceeds that is a leak.",
    ),
    "indices/membership": (
        "Whether a person's record is in the table",
        "Persons whose record lies unusually near a row of indices are in the table. Counted is "
        "the share of them that is found while few others are taken for members.",
    ),
    "indices/record-linking": (
        "Rows recognised from a copy of a person's record",
        "Of all rows, the one whose indices fit a person's copy best is that person's.",
    ),
    "indices/singling-out": (
        "Persons singled out by indices that no one else has",
        "A claim is made only where the row's indices occur once; it counts if the row is that "
        "person's.",
    ),
    "indices/cluster-attribute": (
        "A sensitive attribute from the cluster labels sent back",
        "A party combines the label with its own columns; the baseline is those columns alone.",
    ),
    "indices/integer-grid": (
        "Exact integers from indices of single columns",
        "A subspace of one column of few values is that column, up to a reflection and the unit. "
        "Needs no known row.",
    ),
}

_HEADLINES = frozenset(
    {
        "indices/known-sample",
        "indices/auxiliary-alignment",
        "indices/cross-party",
        "indices/membership",
        "indices/record-linking",
        "indices/singling-out",
        "indices/cluster-attribute",
    }
)


def _without_sense(attack: Attack, preset: str) -> str:
    """Return why an attack makes no sense under a threat model, whatever it grants; or nothing."""
    principal = PRESETS[preset].principal
    if attack.name == "indices/code-recovery" and principal == "party":
        return "a party receives labels and centroids, and no upload of another"
    if attack.name == "indices/cross-party" and "party" not in principal:
        return (
            "it is the attack of a party that holds columns itself; for others "
            "indices/known-sample asks the same"
        )
    return ""


def not_planned_main() -> list[NotRun]:
    """Return the attacks that make no sense under a threat model, each reason once."""
    rows: dict[tuple[str, str], list[str]] = {}
    for preset in PRESETS:
        for attack in _attacks(preset):
            reason = _without_sense(attack, preset)
            if reason:
                rows.setdefault((attack.name, reason), []).append(LABELS[preset])
    return [
        NotRun(
            attack=attack,
            coalition_label="; ".join(labels),
            status="not-applicable",
            reason=reason,
        )
        for (attack, reason), labels in rows.items()
    ]


def _is_headline(attack: Attack, preset: str) -> bool:
    if attack.name == "indices/known-sample" and preset == "server_plus_A":
        # The other parties' columns: the question of indices/cross-party.
        return False
    return attack.name in _HEADLINES


def _by(preset: str) -> By:
    """Return on what predictions of a person's indices rest under a threat model."""
    if preset.endswith("_aux"):
        return "auxiliary-data"
    return "codebooks" if preset == "codebook_insider" else "known-records"


def _attacks(preset: str) -> tuple[Attack, ...]:
    by = _by(preset)
    return (
        CodeRecovery(),
        KnownSampleReconstruction(),
        AuxiliaryAlignment(),
        FrequencyMatching(),
        CrossPartyInference(),
        RecordLinking(by=by),
        SinglingOut(by=by),
        IndexMembership(by=by),
        ClusterAttribute(),
    )


def _planned(
    run: RecordedRun,
    attack: Attack,
    preset: str,
    numbers: Numbers,
    *,
    setting: str,
    series: str,
    headline: bool = False,
    position: float | None = None,
    noise: float = 0.0,
    columns: tuple[int, ...] | None = None,
    keep: bool = False,
    metrics: int | None = None,
) -> Planned:
    title, summary = _WORDS[attack.name]
    return Planned(
        adversary_cell(
            run,
            attack,
            preset,
            numbers,
            setting=setting,
            noise=noise,
            columns=columns,
            keep=keep,
            metrics=metrics,
        ),
        series,
        title,
        summary,
        position=position,
        headline=headline,
        gallery=EXAMPLES if keep and numbers.examples else "",
    )


def plan_main(run: RecordedRun, *, numbers: Numbers, words: str) -> list[Planned]:
    """Every attack under every threat model on the audited run, then sweeps of the knowledge."""
    return list(_main(run, numbers, words))


def _main(run: RecordedRun, numbers: Numbers, words: str) -> Iterator[Planned]:
    kept = {
        ("indices/known-sample", "server_known"),
        ("indices/auxiliary-alignment", "server_aux"),
        ("indices/frequency-matching", "server_aux"),
    }
    for preset, model in PRESETS.items():
        for attack in _attacks(preset):
            if _without_sense(attack, preset):
                continue
            yield _planned(
                run,
                attack,
                preset,
                numbers,
                setting=_setting(words, attack, preset, numbers),
                series="known rows"
                if (attack.name, preset) in kept and "known" in attack.name
                else f"{_WORDS[attack.name][0]}, {LABELS[preset]}",
                position=numbers.known if attack.name == "indices/known-sample" else None,
                headline=_is_headline(attack, preset) and not model.upper_bound,
                keep=(attack.name, preset) in kept,
            )
    yield from _fewer_known(run, numbers, words)
    yield from _worse_copies(run, numbers, words)
    yield _planned(
        run,
        KnownSampleReconstruction(method="table", fallback="mean"),
        "server_known",
        numbers,
        setting=f"{words}, {numbers.known} known rows, indices taken for mere names",
        series="indices as names",
    )


def _setting(words: str, attack: Attack, preset: str, numbers: Numbers) -> str:
    told = [words]
    if attack.name != "indices/code-recovery" and (
        "known" in preset or preset in ("server_plus_A", "hbc_party")
    ):
        told.append(f"{numbers.known} known rows")
    if attack.name in ("indices/record-linking", "indices/singling-out"):
        told.append("exact copies of whole records")
    return ", ".join(told)


def _fewer_known(run: RecordedRun, numbers: Numbers, words: str) -> Iterator[Planned]:
    for count in (10, numbers.known // 2):
        if 2 <= count < numbers.known:
            yield _planned(
                run,
                KnownSampleReconstruction(known=count),
                "server_known",
                numbers,
                setting=f"{words}, {count} known rows",
                series="known rows",
                position=count,
                keep=True,
            )


def _worse_copies(run: RecordedRun, numbers: Numbers, words: str) -> Iterator[Planned]:
    spread = spread_of(run)
    # In units of the data; the digits' pixels deviate by 0.27 on average.
    for share in (0.25, 0.75, 1.5):
        yield _planned(
            run,
            RecordLinking(),
            "server_known",
            numbers,
            setting=f"{words}, {numbers.known} known rows, copies with errors of {share:g} "
            "standard deviations",
            series="copies with errors",
            position=share,
            noise=share * spread,
        )
    first = run.transcript.ids(kinds.DATA_PARTY_ROLE)[0]
    held = tuple(int(c) for c in (run.truth or Truth()).get(first, "columns"))
    yield _planned(
        run,
        RecordLinking(),
        "server_known",
        numbers,
        setting=f"{words}, {numbers.known} known rows, exact copies of one party's columns",
        series="copies of one party's columns",
        columns=held,
    )


def plan_setting(run: RecordedRun, *, numbers: Numbers, words: str, group: str) -> list[Planned]:
    """Return what is attacked on a run that is compared with the audited one.

    Parameters
    ----------
    group : str
        Of the setting. On a table of its own everything is measured; geometry says nothing of
        codes that are coarse or noised, so that alignment is left out there.
    """
    metrics = None if group == "table" else 1
    make = partial(_planned, run, numbers=numbers, setting=words, series=words, metrics=metrics)
    found = [
        make(KnownSampleReconstruction(), "server_known", keep=group == "table"),
        make(RecordLinking(), "server_known"),
        make(IndexMembership(), "outsider_known"),
    ]
    if group not in ("coarse", "private"):
        found.append(make(AuxiliaryAlignment(), "server_aux"))
    if group == "table":
        found += [
            make(CodeRecovery(), "hbc_server"),
            make(SinglingOut(), "server_known"),
            make(CrossPartyInference(), "server_plus_A"),
            make(ClusterAttribute(), "hbc_party"),
        ]
    return found


def plan_single_columns(run: RecordedRun, *, numbers: Numbers, words: str) -> list[Planned]:
    """Return the attack on integers, on a run in which each column is a subspace."""
    return [
        _planned(run, IntegerGrid(), "hbc_server", numbers, setting=words, series="single columns")
    ]
