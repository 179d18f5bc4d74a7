"""Linking sequences to users behind pseudonyms."""

import numpy as np
import pytest

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.control import deranged, linking_truth, pseudonymise
from privaudit.attacks.reidentification import PermutationLinking
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.pa_cfl import kinds
from privaudit.scoring.linking import link_accuracy
from privaudit.testing import check_attack
from privaudit.transcript import Coalition, MemoryRecorder, Party, Truth

MS = kinds.MANAGEMENT_SERVER
USERS = 8


def make_run(rounds=2, *, drift=0.2, seed=0, length=40):
    """Users keep their ranking from round to round, but for a drift of the magnitudes."""
    rng = np.random.default_rng(seed)
    base = rng.exponential(size=(USERS, 300))
    recorder = MemoryRecorder()
    users = [f"user-{i}" for i in range(USERS)]
    recorder.declare([*(Party(u, "user") for u in users), Party(MS, "server")])
    for t in range(1, rounds + 1):
        for i, user in enumerate(users):
            magnitudes = base[i] * np.exp(drift * rng.normal(size=300))
            recorder.send(
                kind=kinds.PERMUTATION_SEQUENCE,
                sender=user,
                receiver=MS,
                round=t,
                arrays={"indices": np.argsort(-magnitudes)[:length]},
                meta={"user": user},
            )
    return recorder.transcript()


def hidden(transcript, *, round=2, seed=1):
    return pseudonymise(
        transcript, kind=kinds.PERMUTATION_SEQUENCE, round=round, rng=np.random.default_rng(seed)
    )


def view_of(transcript):
    return transcript.view(Coalition.of(MS))


def run(view, attack=None, method="run", seed=0):
    return getattr(attack or PermutationLinking(), method)(
        view, knowledge=Knowledge(), rng=np.random.default_rng(seed)
    )


def accuracy(guesses, truth):
    return np.mean(list(link_accuracy(guesses, truth).per_target.values()))


@pytest.mark.parametrize("similarity", ["rbo", "jaccard"])
@pytest.mark.parametrize("matching", ["assignment", "nearest"])
def test_users_that_keep_their_ranking_are_linked(similarity, matching):
    transcript = make_run()
    treated, users = hidden(transcript)
    attack = PermutationLinking(similarity=similarity, matching=matching)
    assert accuracy(run(view_of(treated), attack), linking_truth(transcript, users)) == 1.0


def test_users_without_a_stable_ranking_are_linked_at_chance():
    # Rankings are drawn anew: 40 runs of 8 users have 1 link right on average, standard error 0.16.
    right = []
    for seed in range(40):
        transcript = make_run(drift=50.0, seed=seed)
        treated, users = hidden(transcript, seed=seed)
        right.append(USERS * accuracy(run(view_of(treated)), linking_truth(transcript, users)))
    assert 0.4 < np.mean(right) < 1.8


def test_derangement_brings_links_to_chance_or_below():
    transcript = make_run()
    treated, users = hidden(transcript)
    control = deranged(
        view_of(treated), kinds=PermutationLinking.reads, rng=np.random.default_rng(0)
    )
    assert accuracy(run(control), linking_truth(transcript, users)) <= 0.5


def test_baseline_links_at_random():
    transcript = make_run()
    treated, users = hidden(transcript)
    truth = linking_truth(transcript, users)
    right = [
        USERS * accuracy(run(view_of(treated), method="baseline", seed=s), truth)
        for s in range(200)
    ]
    assert 0.7 < np.mean(right) < 1.3  # a random matching has one fixed point on average


def test_a_seed_that_pseudonyms_and_baseline_share_does_not_undo_the_pseudonyms():
    transcript = make_run()
    right = []
    for seed in range(200):
        treated, users = hidden(transcript, seed=seed)
        guesses = run(view_of(treated), method="baseline", seed=seed)
        right.append(USERS * accuracy(guesses, linking_truth(transcript, users)))
    assert 0.7 < np.mean(right) < 1.3


def test_the_attack_conforms():
    treated, _ = hidden(make_run())
    check_attack(PermutationLinking(), view_of(treated), Knowledge())


def test_the_last_named_round_before_is_the_gallery_unless_one_is_asked_for():
    transcript = make_run(rounds=4)
    treated, users = hidden(transcript, round=3)
    only_two = [m for m in treated.messages if m.round in (2, 3)]
    attack = PermutationLinking()
    expected = run(view_of(type(treated)(treated.parties, tuple(only_two))), attack)
    found = run(view_of(treated), attack)
    assert found.diagnostics == expected.diagnostics
    other = run(view_of(treated), PermutationLinking(gallery_round=4))
    assert other.diagnostics != expected.diagnostics
    assert accuracy(other, linking_truth(transcript, users)) == 1.0


def test_views_without_pseudonyms_or_gallery_are_refused():
    transcript = make_run()
    with pytest.raises(UnmetRequirementsError, match="pseudonymise"):
        run(view_of(transcript))
    treated, _ = hidden(transcript)
    with pytest.raises(UnmetRequirementsError, match=r"round 7; rounds with some: \[1\]"):
        run(view_of(treated), PermutationLinking(gallery_round=7))


@pytest.mark.parametrize(
    "parameters", [{"similarity": "dtw"}, {"matching": "best"}, {"persistence": 1.0}]
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(ConfigurationError):
        PermutationLinking(**parameters)


def test_links_are_scored_by_pseudonym():
    guesses = Guesses(("pseudonym-0", "pseudonym-1"), (np.array(2), np.array(0)), np.zeros(2))
    truth = Truth({"pseudonym-1": {"user": np.array(1)}, "pseudonym-0": {"user": np.array(2)}})
    assert link_accuracy(guesses, truth).per_target == {"pseudonym-0": 1.0, "pseudonym-1": 0.0}
