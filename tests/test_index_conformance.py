"""Attacks on indices keep the rules, need what they say, and are undone by the control."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from index_runs import Run, attacked, digits_run, mean, run_on, table_of, truth_of, without

from privaudit import plugins
from privaudit.attacks.base import Knowledge
from privaudit.attacks.control import leaked
from privaudit.attacks.indices import (
    OUTSIDER,
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
from privaudit.attacks.vertical import KnownRecords, PartialRecords, VerticalKnowledge
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.pq_mds import kinds
from privaudit.scoring.membership import membership_auc
from privaudit.scoring.records import (
    attribute_accuracy,
    code_bijection,
    linked_within,
    normalised_error,
    singled_out,
)
from privaudit.testing import check_attack
from privaudit.transcript import Capability, Coalition

SMALL = {"known": 40, "persons": 60}

#: For each attack: options, and the threat models under which it must run.
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "indices/code-recovery": [({}, "hbc_server"), ({}, "server_plus_A"), ({}, "outsider_known")],
    "indices/integer-grid": [({}, "hbc_server")],
    "indices/frequency-matching": [({}, "server_aux"), ({}, "outsider_aux")],
    "indices/known-sample": [
        ({}, "server_known"),
        ({"method": "table", "fallback": "mean"}, "outsider_known"),
        ({"method": "procrustes", "known": 30}, "server_plus_A"),
    ],
    "indices/auxiliary-alignment": [({}, "server_aux"), ({"method": "ridge"}, "outsider_aux")],
    "indices/record-linking": [
        ({}, "server_known"),
        ({"by": "auxiliary-data", "ranks": 3}, "outsider_aux"),
        ({"by": "codebooks"}, "codebook_insider"),
    ],
    "indices/singling-out": [({}, "server_known"), ({"by": "auxiliary-data"}, "server_aux")],
    "indices/cross-party": [({}, "server_plus_A")],
    "indices/membership": [
        ({}, "outsider_known"),
        ({"by": "auxiliary-data"}, "server_aux"),
        ({"by": "codebooks"}, "codebook_insider"),
    ],
    "indices/cluster-attribute": [({}, "hbc_party"), ({"own": False}, "hbc_party")],
}
EVERY = [
    pytest.param(name, *case, id=f"{name}-{number}")
    for name, cases in CASES.items()
    for number, case in enumerate(cases)
]


def small_run(name: str = "") -> Run:
    if name == "indices/integer-grid":
        table, labels = table_of("digits")
        kept = np.r_[0:4, 34:38]
        return run_on(
            table[:300, kept] * 16,
            labels[:300],
            widths=(4, 4),
            auxiliary=table[300:400, kept] * 16,
            subspaces=4,
            codewords=17,
        )
    return digits_run(4, 8, rows=200, total=360)


def test_there_is_a_case_for_every_registered_attack_on_indices() -> None:
    registered = {n for n in plugins.available("attack") if n.startswith("indices/")}
    assert registered == set(CASES)


@pytest.mark.parametrize(("name", "options", "preset"), EVERY)
def test_every_attack_on_indices_conforms(name: str, options: dict[str, Any], preset: str) -> None:
    run = small_run(name)
    given = run.grant(preset, **SMALL)
    check_attack(
        plugins.load("attack", name)(**options),
        run.view(preset),
        given.knowledge,
        truth=truth_of(run, given),
    )


#: What each attack gets from the run as it is must be gone where rows are exchanged.
CONTROLLED = [
    (CodeRecovery(), "hbc_server", code_bijection),
    (KnownSampleReconstruction(), "server_known", normalised_error),
    (AuxiliaryAlignment(), "server_aux", normalised_error),
    (RecordLinking(), "server_known", lambda g, t: linked_within(g, t, ranks=1)),
    (SinglingOut(), "server_known", singled_out),
    (CrossPartyInference(), "server_plus_A", normalised_error),
    (ClusterAttribute(own=False), "hbc_party", attribute_accuracy),
]


@pytest.mark.parametrize(
    ("attack", "preset", "score"), CONTROLLED, ids=[a.name for a, _, _ in CONTROLLED]
)
def test_where_rows_are_exchanged_the_attack_does_no_better_than_its_baseline(
    attack: Any, preset: str, score: Any
) -> None:
    run = digits_run(rows=898)
    given = run.grant(preset)
    view, truth = run.view(preset), truth_of(run, given)
    treated = run.control(view, attack)

    def figure(method: str, seen: Any) -> float:
        guesses = getattr(attack, method)(
            seen, knowledge=given.knowledge, rng=np.random.default_rng(0)
        )
        scores = score(guesses, truth)
        return mean(scores) * (1 if scores.higher_is_leakier else -1)

    found, control, baseline = figure("run", view), figure("run", treated), figure("baseline", view)
    assert found > baseline + 0.1
    # An attack that is misled may do worse than guessing, never better.
    assert control <= baseline + 0.02


def test_where_columns_are_exchanged_apart_membership_is_a_coin_toss() -> None:
    run = digits_run(rows=898)
    given = run.grant("outsider_known")
    view, attack = run.view("outsider_known"), IndexMembership()
    treated = run.control(view, attack, separately=True)
    guesses = attack.run(treated, knowledge=given.knowledge, rng=np.random.default_rng(0))
    control = membership_auc(guesses, truth_of(run, given))
    assert control.low < 0.5 < control.high


def test_there_are_eight_threat_models_and_one_is_an_upper_bound() -> None:
    assert len(PRESETS) == 8
    assert [m.name for m in PRESETS.values() if m.upper_bound] == ["codebook_insider"]
    assert all(name == model.name for name, model in PRESETS.items())


def test_a_threat_model_that_lacks_what_an_attack_needs_refuses_with_the_reason() -> None:
    run = small_run()
    for name, cases in CASES.items():
        attack = plugins.load("attack", name)(**cases[0][0])
        for preset, model in PRESETS.items():
            if attack.requires <= model.capabilities:
                continue
            given = run.grant(preset, **SMALL)
            missing = sorted(attack.requires - model.capabilities)[0]
            with pytest.raises(UnmetRequirementsError, match=f"{name}.*{missing}"):
                attack.run(
                    run.view(preset), knowledge=given.knowledge, rng=np.random.default_rng(0)
                )


@pytest.mark.parametrize("by", ["known-records", "auxiliary-data", "codebooks"])
def test_placing_persons_by_what_is_not_granted_is_refused(by: str) -> None:
    run = small_run()
    view, given = run.view("server_known"), run.grant("server_known", **SMALL)
    view = replace(view, capabilities=frozenset({Capability.PARTIAL_RECORDS}))
    with pytest.raises(UnmetRequirementsError, match=by):
        RecordLinking(by=by).run(view, knowledge=given.knowledge, rng=np.random.default_rng(0))


def test_knowledge_that_is_granted_and_not_declared_is_refused_by_name() -> None:
    run = small_run()
    given = run.grant("server_known", **SMALL)
    with pytest.raises(UnmetRequirementsError, match=r"vertical\.known"):
        KnownSampleReconstruction().run(
            run.view("server_known"),
            knowledge=without(given.knowledge, known=None),
            rng=np.random.default_rng(0),
        )


def test_known_rows_that_are_not_in_the_run_are_refused() -> None:
    run = small_run()
    known = KnownRecords(np.array([-5, -6]), np.zeros((2, 64)))
    with pytest.raises(InvalidDataError, match="2 of 2 row ids are not in the view"):
        KnownSampleReconstruction().run(
            run.view("server_known"),
            knowledge=Knowledge(
                vertical=VerticalKnowledge(
                    known=known, layout=run.grant("hbc_server", **SMALL).knowledge.vertical.layout
                )
            ),
            rng=np.random.default_rng(0),
        )


def test_a_view_without_uploads_is_refused() -> None:
    run = small_run()
    view = run.transcript.view(Coalition.of("party-1"))
    with pytest.raises(UnmetRequirementsError, match="own coalition"):
        CodeRecovery().run(view, knowledge=Knowledge(), rng=np.random.default_rng(0))
    empty = replace(view, messages=())
    with pytest.raises(UnmetRequirementsError, match="one upload a party"):
        CodeRecovery().run(empty, knowledge=Knowledge(), rng=np.random.default_rng(0))


def test_a_leak_keeps_rows_and_ids_together_and_hides_the_order() -> None:
    run = small_run()
    view = run.view("outsider_known")
    sent = run.transcript.view(Coalition.of("server")).select(kinds.INDICES)
    ids = run.transcript.public_arrays[kinds.ROWS]
    for copy, original in zip(view.select(kinds.INDICES), sent, strict=True):
        assert not np.array_equal(copy.arrays["rows"], ids)
        back = np.argsort(copy.arrays["rows"])
        np.testing.assert_array_equal(
            copy.arrays["indices"][back], original.arrays["indices"][np.argsort(ids)]
        )
    assert not view.select(kinds.LABELS)


def test_an_outsider_needs_a_leak() -> None:
    with pytest.raises(ConfigurationError, match="leaked"):
        PRESETS["outsider_aux"].coalition(small_run().transcript)


def test_auxiliary_records_candidates_and_known_rows_are_disjoint() -> None:
    run = digits_run(rows=898)
    held = run.grant("server_aux").knowledge.vertical
    assert held.auxiliary is not None
    assert held.candidates is not None
    assert held.partial is not None
    known = {row.tobytes() for row in held.auxiliary}
    assert not known & {row.tobytes() for row in held.candidates}
    given = run.grant("server_known")
    rows = {int(i) for i in given.knowledge.vertical.known.ids}
    assert not rows & {row for row in given.persons.values() if row is not None}


@pytest.mark.parametrize(
    "make",
    [
        lambda: KnownSampleReconstruction(method="forest"),
        lambda: KnownSampleReconstruction(fallback="zero"),
        lambda: KnownSampleReconstruction(known=1),
        lambda: AuxiliaryAlignment(method="knn"),
        lambda: RecordLinking(by="luck"),
        lambda: RecordLinking(ranks=0),
        lambda: SinglingOut(by="luck"),
        lambda: IndexMembership(by="luck"),
        lambda: IntegerGrid(tolerance=0.5),
        lambda: ClusterAttribute(strengths=()),
    ],
)
def test_options_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: KnownRecords(np.array([1, 1]), np.zeros((2, 3))),
        lambda: KnownRecords(np.array([1, 2]), np.zeros((3, 3))),
        lambda: KnownRecords(np.array([1]), np.full((1, 3), np.nan)),
        lambda: PartialRecords(("a",), np.array([0, 1]), np.zeros((1, 3))),
        lambda: PartialRecords(("a", "a"), np.array([0]), np.zeros((2, 1))),
        lambda: PartialRecords(("a",), np.array([0]), np.zeros((1, 1)), noise=-1.0),
        lambda: VerticalKnowledge(candidates=np.zeros((2, 3)), candidate_ids=("a",)),
    ],
)
def test_knowledge_that_does_not_fit_together_is_refused(make: Any) -> None:
    with pytest.raises(InvalidDataError):
        make()


def test_frequencies_alone_do_worse_than_the_mean_record() -> None:
    run = digits_run(rows=898)
    assert mean(normalised_error(*attacked(run, FrequencyMatching(), "server_aux"))) >= 1.0


def test_a_leak_changes_nothing_for_those_who_took_part() -> None:
    run = small_run()
    model = PRESETS["server_plus_A"]
    plain = run.view("server_plus_A")
    after = run.view("outsider_known")
    transcript = leaked(
        run.transcript,
        kinds=(kinds.INDICES,),
        ids=kinds.ROWS,
        outsider=OUTSIDER,
        rng=np.random.default_rng(0),
    )
    view = transcript.view(model.coalition(transcript))
    assert len(view.messages) > len(plain.messages)
    one, two = (
        CodeRecovery().run(v, knowledge=Knowledge(), rng=np.random.default_rng(0))
        for v in (plain, view)
    )
    for a, b in zip(one.values, two.values, strict=True):
        np.testing.assert_array_equal(a, b)
    assert {m.receiver for m in after.messages} == {OUTSIDER}
