"""Linking clients by their similarities: matching, pseudonyms, defences, and the whole attack."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import deranged, linking_truth
from privaudit.attacks.pseudonyms import pseudonymise_round
from privaudit.attacks.reidentification import SimilarityLinking
from privaudit.attacks.reidentification import _matching as matching
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.defences import co_membership, defended, noised, rounded
from privaudit.scoring.linking import link_accuracy, presence_accuracy, recognition
from privaudit.testing import check_attack
from privaudit.transcript import Coalition, MemoryRecorder, Party, Truth

FIXTURE = Path(__file__).parent / "data" / "similarity_rounds.npz"
SERVER = kinds.SERVER


@pytest.fixture(scope="module")
def federations():
    with np.load(FIXTURE, allow_pickle=False) as stored:
        return dict(stored)


def similarities(n, *, seed):
    """A random symmetric matrix with ones on the diagonal."""
    values = np.random.default_rng(seed).normal(size=(n, n))
    matrix = (values + values.T) / 4
    np.fill_diagonal(matrix, 1.0)
    return matrix


def record(rounds, *, users=None, sender=None):
    """Record rounds of (positions of the clients, matrix), as the server receives them."""
    users = users or 1 + max(int(max(present)) for present, _ in rounds)
    recorder = MemoryRecorder()
    recorder.declare(
        [
            *(Party(f"user-{i}", "user") for i in range(users)),
            Party(SERVER, "server"),
            Party(kinds.KEY_HELPER, "helper"),
        ]
    )
    for t, (present, matrix) in enumerate(rounds, start=1):
        names = [f"user-{i}" for i in present]
        for name in names:
            recorder.send(kind=kinds.GLOBAL_MODEL, sender=SERVER, receiver=name, round=t)
        pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
        groups = [pairs] if sender else [[p for p in pairs if p[0] == i] for i in range(len(names))]
        for group in groups:
            if group:
                recorder.send(
                    kind=kinds.SIMILARITY_VALUES,
                    sender=sender or names[group[0][0]],
                    receiver=SERVER,
                    round=t,
                    arrays={"cosines": np.array([matrix[p] for p in group])},
                    meta={"pairs": [[names[i], names[j]] for i, j in group]},
                )
    return recorder.transcript()


def hide(transcript, *, round=2, seed=0):
    return pseudonymise_round(
        transcript,
        round=round,
        kinds=(kinds.SIMILARITY_VALUES,),
        rng=np.random.default_rng(seed),
    )


def run(transcript, attack=None, *, method="run", seed=0):
    view = transcript.view(Coalition.of(SERVER))
    return getattr(attack or SimilarityLinking(), method)(
        view, knowledge=Knowledge(), rng=np.random.default_rng(seed)
    )


def rate(scores):
    return float(np.mean(list(scores.per_target.values())))


def linked(first, second, attack=None, *, seed=0):
    """Return the rate of clients of the second matrix that are linked to the first."""
    everyone = range(len(first))
    transcript = record([(everyone, first), (everyone, second)])
    hidden, users = hide(transcript, seed=seed)
    return rate(link_accuracy(run(hidden, attack), linking_truth(transcript, users)))


# What the attack achieves, on rounds of a real run.


@pytest.mark.parametrize("measure", ["params", "delta"])
@pytest.mark.parametrize("later", [6, 10])
def test_skewed_clients_are_linked_across_rounds(federations, measure, later):
    first, second = (federations[f"attacked-{measure}-{t}"] for t in (5, later))
    assert linked(first, second) >= 0.9


@pytest.mark.parametrize("measure", ["params", "delta"])
@pytest.mark.parametrize("method", ["qap", "sorted"])
def test_clients_of_another_federation_are_not(federations, measure, method):
    first, second = federations[f"attacked-{measure}-5"], federations[f"other-{measure}-6"]
    assert linked(first, second, SimilarityLinking(method=method, starts=20)) <= 0.2


def test_quadratic_assignment_links_more_than_sorted_rows(federations):
    first, second = federations["attacked-params-5"], federations["attacked-params-10"]
    assert linked(first, second) > linked(first, second, SimilarityLinking(method="sorted"))


def test_the_control_with_deranged_pairs_links_few(federations):
    everyone = range(20)
    transcript = record([(everyone, federations[f"attacked-delta-{t}"]) for t in (5, 6)])
    hidden, users = hide(transcript)
    view = hidden.view(Coalition.of(SERVER))
    control = deranged(view, kinds=SimilarityLinking.reads, rng=np.random.default_rng(0))
    attack = SimilarityLinking(starts=20)
    guesses = attack.run(control, knowledge=Knowledge(), rng=np.random.default_rng(0))
    assert rate(link_accuracy(guesses, linking_truth(transcript, users))) <= 0.2


def test_publishing_labels_only_ends_linking_and_rounding_does_not(federations):
    pair = [federations[f"attacked-delta-{t}"] for t in (5, 6)]
    assert linked(*(rounded(m, decimals=2) for m in pair)) >= 0.9
    told = [co_membership(m, seed=0) for m in pair]
    assert linked(*told, SimilarityLinking(starts=20)) <= 0.4


def test_known_clients_link_the_others_and_are_no_targets(federations):
    everyone = range(20)
    transcript = record([(everyone, federations[f"attacked-delta-{t}"]) for t in (5, 10)])
    hidden, users = hide(transcript)
    anchors = tuple(users.items())[:5]
    guesses = run(hidden, SimilarityLinking(method="anchors", anchors=anchors))
    assert not set(guesses.target_ids) & {pseudonym for pseudonym, _ in anchors}
    assert len(guesses.target_ids) == 15
    assert rate(link_accuracy(guesses, linking_truth(transcript, users))) >= 0.8
    prior = run(hidden, SimilarityLinking(method="anchors", anchors=anchors), method="baseline")
    known = {transcript.ids("user").index(u) for _, u in anchors}
    assert not {int(v) for v in prior.values} & known


def test_the_baseline_is_a_random_matching():
    transcript = record([(range(8), similarities(8, seed=s)) for s in (0, 1)])
    hidden, users = hide(transcript)
    truth = linking_truth(transcript, users)
    right = [
        8 * rate(link_accuracy(run(hidden, method="baseline", seed=s), truth)) for s in range(200)
    ]
    assert 0.7 < np.mean(right) < 1.3  # one fixed point on average


# Different clients in different rounds.


def test_clients_in_both_of_two_rounds_are_linked_and_the_others_declared_absent():
    whole = similarities(35, seed=0)
    first, second = np.arange(30), np.arange(5, 35)
    transcript = record([(p, whole[np.ix_(p, p)]) for p in (first, second)])
    hidden, users = hide(transcript)
    names = transcript.ids("user")
    truth = linking_truth(transcript, users, gallery=[names[i] for i in first])
    guesses = run(hidden, SimilarityLinking(open_set=True, starts=10))
    assert rate(recognition(guesses, truth)) >= 0.9
    assert len(recognition(guesses, truth).per_target) == 25
    assert rate(presence_accuracy(guesses, truth)) >= 0.9
    closed = run(hidden, SimilarityLinking(starts=10))
    assert all(int(value) >= 0 for value in closed.values)


def test_strangers_are_declared_absent():
    transcript = record(
        [(range(15), similarities(15, seed=0)), (range(15, 30), similarities(15, seed=1))]
    )
    hidden, users = hide(transcript)
    truth = linking_truth(transcript, users, gallery=transcript.ids("user")[:15])
    guesses = run(hidden, SimilarityLinking(open_set=True, starts=10))
    assert rate(presence_accuracy(guesses, truth)) >= 0.7
    assert not recognition(guesses, truth).per_target


def test_rounds_together_name_clients_that_no_single_one_knows():
    whole = similarities(30, seed=0)
    rng = np.random.default_rng(0)
    drawn = [np.sort(rng.choice(30, 15, replace=False)) for _ in range(40)]
    transcript = record([(p, whole[np.ix_(p, p)]) for p in drawn], users=30)
    hidden, users = hide(transcript, round=40)
    truth = linking_truth(transcript, users)
    attack = SimilarityLinking(history=True)
    assert rate(link_accuracy(run(hidden, attack), truth)) >= 0.9
    assert rate(link_accuracy(run(hidden, SimilarityLinking(starts=5)), truth)) < 0.9
    assert run(hidden, attack).diagnostics["gallery-clients"] == 30


def test_nobody_is_absent_from_a_gallery_of_all_users():
    first, second = similarities(8, seed=0), similarities(8, seed=1)
    transcript = record([(range(8), first), (range(8), second)])
    hidden, _ = hide(transcript)
    strange, same = (run(hidden, SimilarityLinking(open_set=o, starts=3)) for o in (True, False))
    assert [int(v) for v in strange.values] == [int(v) for v in same.values]
    assert -1 not in {int(v) for v in strange.values}


def test_more_pseudonyms_than_known_clients_leave_some_without_a_guess():
    whole = similarities(12, seed=0)
    transcript = record([(range(8), whole[:8, :8]), (range(12), whole)])
    hidden, _ = hide(transcript)
    values = [int(v) for v in run(hidden).values]
    assert values.count(-1) == 4
    assert len(set(values) - {-1}) == 8


# Matching, against brute force.


def brute(probe, gallery, known):
    every = permutations(range(len(gallery)), len(probe))
    return min((cost_by_hand(probe, gallery, known, m), m) for m in every)


def cost_by_hand(probe, gallery, known, found):
    total = 0.0
    for i in range(len(found)):
        for j in range(i):
            b, seen = probe[i, j], known[found[i], found[j]]
            total += (b - gallery[found[i], found[j]]) ** 2 if seen else b**2 + 1
    return total


def problem(n, m, *, seed, noise=0.3, hidden=0.0):
    """A gallery with unobserved pairs, and a noisy probe of some of its nodes."""
    rng = np.random.default_rng(seed)
    whole = similarities(m, seed=seed + 1000)
    order = rng.permutation(m)[:n]
    probe = whole[np.ix_(order, order)] + noise * similarities(n, seed=seed + 2000)
    missing = np.triu(rng.random((m, m)) < hidden, 1)
    gallery, known = matching.standardise(np.where(missing | missing.T, np.nan, whole))
    return matching.standardise(probe)[0], gallery, known, order


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("n", "m", "hidden"), [(6, 6, 0.0), (6, 6, 0.3), (4, 6, 0.2)])
def test_quadratic_assignment_finds_the_best_of_all_matchings(n, m, hidden, seed):
    probe, gallery, known, _ = problem(n, m, seed=seed, noise=0.6, hidden=hidden)
    best, _ = brute(probe, gallery, known)
    found, _ = matching.complete(probe, gallery, known, starts=8, rng=np.random.default_rng(seed))
    assert matching.cost(probe, gallery, known, found) == pytest.approx(best)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 7), st.integers(0, 3), st.integers(0, 10_000))
def test_costs_are_those_of_the_definition_and_refining_leaves_nothing_to_gain(n, more, seed):
    m = n + more
    probe, gallery, known, _ = problem(n, m, seed=seed, noise=1.0, hidden=0.3)
    start = np.random.default_rng(seed).permutation(m)[:n]
    assert matching.cost(probe, gallery, known, start) == pytest.approx(
        cost_by_hand(probe, gallery, known, start)
    )
    found = matching.refine(probe, gallery, known, start)
    assert len(set(found)) == n
    own = cost_by_hand(probe, gallery, known, found)
    assert own <= cost_by_hand(probe, gallery, known, start) + 1e-9
    for i in range(n):
        for other in range(m):
            moved = found.copy()
            if other in found:
                moved[found == other] = found[i]
            moved[i] = other
            assert cost_by_hand(probe, gallery, known, moved) >= own - 1e-6


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 12), st.integers(0, 10_000))
def test_matchings_follow_a_relabelling_of_either_side(n, seed):
    probe, gallery, known, order = problem(n, n, seed=seed, noise=0.0)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(n), rng.permutation(n)
    moved = probe[np.ix_(rows, rows)]
    renamed = gallery[np.ix_(columns, columns)], known[np.ix_(columns, columns)]
    complete = partial(matching.complete, starts=0, rng=rng)
    for method in (matching.by_sorted_rows, lambda *p: complete(*p)[0]):
        plain = method(probe, gallery, known)
        assert (plain == order).all()
        assert (method(moved, gallery, known) == plain[rows]).all()
        assert (columns[method(probe, *renamed)] == plain).all()


def test_a_matrix_without_variation_is_standardised_to_zero():
    values, known = matching.standardise(np.full((4, 4), 0.3))
    assert not values.any()
    assert known.sum() == 12


# Pseudonyms.


@pytest.mark.parametrize("sender", [None, kinds.KEY_HELPER])
def test_pseudonyms_hide_every_id_and_keep_every_value(sender):
    whole = similarities(7, seed=0)
    transcript = record([(range(7), whole), (range(7), whole)], sender=sender)
    hidden, users = hide(transcript)
    told = [m for m in hidden.messages if m.round == 2]
    text = repr([(m.sender, m.receiver, dict(m.meta)) for m in told])
    assert not [u for u in transcript.ids("user") if f"'{u}'" in text]
    assert {m.kind for m in told} == {kinds.SIMILARITY_VALUES}
    number = {u: i for i, u in enumerate(transcript.ids("user"))}
    seen = 0
    for m in told:
        for (a, b), value in zip(m.meta["pairs"], m.arrays["cosines"], strict=True):
            assert value == whole[number[users[a]], number[users[b]]]
            seen += 1
    assert seen == 21
    assert [m.seq for m in hidden.messages] == list(range(len(hidden.messages)))
    before = [m.sender for m in transcript.messages if m.round == 1]
    assert [m.sender for m in hidden.messages if m.round == 1] == before


def test_who_starts_a_comparison_tells_nothing_of_the_client():
    """The first pseudonym compares itself with all others, whoever it is."""
    transcript = record([(range(5), similarities(5, seed=s)) for s in (0, 1)])
    behind = set()
    for seed in range(40):
        hidden, users = hide(transcript, seed=seed)
        told = [m for m in hidden.messages if m.round == 2]
        assert [(m.sender, len(m.meta["pairs"])) for m in told] == [
            (f"pseudonym-{i}", 4 - i) for i in range(4)
        ]
        behind.add(users["pseudonym-0"])
    assert len(behind) == 5


def test_messages_of_one_sender_each_are_shuffled_and_lose_their_metadata():
    recorder = MemoryRecorder()
    recorder.declare([*(Party(f"user-{i}", "user") for i in range(6)), Party(SERVER, "server")])
    for i in range(6):
        recorder.send(
            kind=kinds.PARAMETERS,
            sender=f"user-{i}",
            receiver=SERVER,
            round=3,
            arrays={"parameters": np.array([float(i)])},
            meta={"position": i},
        )
    hidden, users = pseudonymise_round(
        recorder.transcript(), round=3, kinds=[kinds.PARAMETERS], rng=np.random.default_rng(1)
    )
    assert all(not m.meta for m in hidden.messages)
    for m in hidden.messages:
        assert users[m.sender] == f"user-{int(m.arrays['parameters'][0])}"
    assert [users[m.sender] for m in hidden.messages] != list(recorder.transcript().ids("user"))


def test_a_round_without_the_kinds_is_refused():
    transcript = record([(range(4), similarities(4, seed=0))])
    with pytest.raises(ConfigurationError, match=r"round 7; rounds with some: \[1\]"):
        hide(transcript, round=7)


# Rules, refusals, scores, defences.


def test_the_attack_conforms():
    transcript = record([(range(8), similarities(8, seed=s)) for s in (0, 1)])
    hidden, users = hide(transcript)
    view = hidden.view(Coalition.of(SERVER))
    anchors = tuple(users.items())[:2]
    for attack in (
        SimilarityLinking(starts=2),
        SimilarityLinking(method="sorted"),
        SimilarityLinking(method="anchors", anchors=anchors),
        SimilarityLinking(open_set=True, history=True, starts=1),
    ):
        check_attack(attack, view, Knowledge())


def test_views_that_cannot_be_attacked_are_refused():
    transcript = record([(range(4), similarities(4, seed=s)) for s in (0, 1)])
    with pytest.raises(UnmetRequirementsError, match="pseudonymise_round"):
        run(transcript)
    hidden, _ = hide(transcript)
    with pytest.raises(UnmetRequirementsError, match=r"round 9; rounds with some: \[1\]"):
        run(hidden, SimilarityLinking(gallery_round=9))
    with pytest.raises(ConfigurationError, match=r"anchor \(pseudonym-9, user-0\)"):
        run(hidden, SimilarityLinking(method="anchors", anchors=(("pseudonym-9", "user-0"),)))
    recorder = MemoryRecorder()
    recorder.declare([Party("user-0", "user"), Party(SERVER, "server")])
    with pytest.raises(UnmetRequirementsError, match="similarity-values"):
        run(recorder.transcript())


@pytest.mark.parametrize("cosines", [[0.1], [0.1, np.nan, 0.2]])
def test_similarities_that_are_not_one_finite_number_a_pair_are_refused(cosines):
    recorder = MemoryRecorder()
    recorder.declare([*(Party(f"user-{i}", "user") for i in range(3)), Party(SERVER, "server")])
    recorder.send(
        kind=kinds.SIMILARITY_VALUES,
        sender="user-0",
        receiver=SERVER,
        round=1,
        arrays={"cosines": np.array(cosines)},
        meta={"pairs": [["user-0", "user-1"], ["user-0", "user-2"], ["user-1", "user-2"]]},
    )
    with pytest.raises(InvalidDataError, match="3 pairs"):
        run(recorder.transcript())


@pytest.mark.parametrize(
    "options",
    [{"method": "best"}, {"method": "anchors"}, {"anchors": (("a", "b"),)}, {"starts": -1}],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigurationError):
        SimilarityLinking(**options)


def test_open_set_scores_join_by_pseudonym_and_count_the_absent():
    truth = Truth({f"p{i}": {"user": np.array(u)} for i, u in enumerate((4, 5, -1, -1))})
    guesses = Guesses(
        ("p3", "p2", "p1", "p0"), tuple(np.array(v) for v in (7, -1, -1, 4)), np.zeros(4)
    )
    assert recognition(guesses, truth).per_target == {"p1": 0.0, "p0": 1.0}
    assert presence_accuracy(guesses, truth).per_target == {
        "p3": 0.0,
        "p2": 1.0,
        "p1": 0.0,
        "p0": 1.0,
    }
    assert link_accuracy(guesses, truth).per_target == {
        "p3": 0.0,
        "p2": 1.0,
        "p1": 0.0,
        "p0": 1.0,
    }


@pytest.mark.parametrize(
    "defence",
    [
        partial(rounded, decimals=1),
        partial(noised, deviations=0.5, rng=np.random.default_rng(0)),
        partial(co_membership, seed=0),
    ],
)
def test_a_defended_run_tells_what_the_defence_leaves(defence):
    whole = similarities(9, seed=0)
    transcript = record([(range(9), whole), (range(2, 6), whole[2:6, 2:6])])
    told = []

    def watched(matrix):
        told.append(defence(matrix))
        assert (told[-1] == told[-1].T).all()
        assert (np.diag(told[-1]) == 1).all()
        return told[-1]

    after = defended(transcript, watched)
    assert [len(m) for m in told] == [9, 4]
    for before, now in zip(transcript.messages, after.messages, strict=True):
        assert (before.seq, before.kind, before.meta) == (now.seq, now.kind, now.meta)
        if now.kind == kinds.SIMILARITY_VALUES and now.round == 1:
            row = int(now.sender.removeprefix("user-"))
            assert (now.arrays["cosines"] == told[0][row, row + 1 :]).all()


def test_noise_has_the_deviation_that_is_asked_for():
    matrix = similarities(60, seed=0)
    upper = np.triu_indices(60, 1)
    change = noised(matrix, deviations=0.5, rng=np.random.default_rng(0)) - matrix
    assert change[upper].std() == pytest.approx(0.5 * matrix[upper].std(), rel=0.1)
