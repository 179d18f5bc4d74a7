"""Membership, properties and noised labels: each does what it says where the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from privaudit import plugins
from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.candidates import Candidates
from privaudit.attacks.control import deranged, linking_truth, pseudonymise
from privaudit.attacks.inference import (
    LabelsFromNoisedRemainder,
    PropertyInference,
    UpdateMembership,
)
from privaudit.attacks.inference._whitening import fit_law
from privaudit.attacks.laplace import laplace_log_ratio, laplace_posterior_mean
from privaudit.attacks.pseudonyms import pseudonymise_round
from privaudit.attacks.reidentification import ClusterLinking, GradientLinking
from privaudit.attacks.shadows import PublishedTraining, record_gradients
from privaudit.attacks.updates import observed_updates
from privaudit.campaigns.linking import linking_cell
from privaudit.campaigns.membership import membership_experiment
from privaudit.campaigns.runs import RecordedRun
from privaudit.datasets import load_dataset
from privaudit.datasets.attributes import RecordAttribute
from privaudit.datasets.base import LabelledImages
from privaudit.datasets.partition import partition
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.baselines import kinds as fedavg
from privaudit.protocols.pa_cfl import kinds as pa_cfl
from privaudit.protocols.training import local_update
from privaudit.scoring.labels import dominant_label, label_overlap
from privaudit.scoring.linking import link_accuracy
from privaudit.scoring.membership import membership_auc
from privaudit.scoring.properties import majority_accuracy, share_error
from privaudit.transcript import (
    Capability,
    Coalition,
    MemoryRecorder,
    Transcript,
    Truth,
    View,
)

SPEC = ModelSpec("mlp", (1, 8, 8), 10)
MS, AS = pa_cfl.MANAGEMENT_SERVER, pa_cfl.AGGREGATION_SERVER


def federation(
    protocol: str,
    *,
    users: int = 6,
    records: int = 24,
    scheme: Any = "dirichlet",
    **parameters: Any,
) -> tuple[Transcript, Truth, Knowledge]:
    data = partition(
        load_dataset("digits"),
        users=users,
        scheme=scheme,
        groups=3,
        records_per_user=records,
        auxiliary_records=400,
        rng=np.random.default_rng(5),
    )
    kind = plugins.load("protocol", protocol)
    recorder = MemoryRecorder()
    kind(kind.Config(model="mlp", **parameters)).run(
        data, rng=np.random.default_rng(6), recorder=recorder
    )
    transcript = recorder.transcript()
    initial = transcript.public_arrays["initial-parameters"]
    return transcript, recorder.truth(), Knowledge(SPEC, initial, data.auxiliary)


def seen(transcript: Transcript, *members: str) -> View:
    return transcript.view(Coalition.of(*members, capabilities=Capability))


def go(attack: Any, view: View, knowledge: Knowledge) -> Guesses:
    guesses: Guesses = attack.run(view, knowledge=knowledge, rng=np.random.default_rng(1))
    return guesses


def mean(scores: Any) -> float:
    return float(np.mean(list(scores.per_target.values())))


# The reading of updates.


@pytest.mark.parametrize(
    ("protocol", "members", "more"),
    [
        ("fedavg", (fedavg.SERVER,), {}),
        ("pa-cfl", (AS, "user-1"), {"similarity": "jaccard", "epsilon0": 50.0}),
        ("pa-cfl", (AS, "user-1"), {"similarity": "jaccard", "protection": False}),
        ("disue", ("server",), {"similarity": "plain", "distillation": "none"}),
    ],
)
def test_updates_read_from_a_view_are_those_of_the_run(
    protocol: str, members: tuple[str, ...], more: dict[str, Any]
) -> None:
    """Values, coordinates and, by training anew from the start that was read, the start."""
    transcript, truth, knowledge = federation(protocol, rounds=3, **more)
    found = observed_updates(seen(transcript, *members), knowledge, attack="test")
    assert {u.round for u in found} == {1, 2, 3}
    for update in found:
        true = truth.get(f"{update.user}/round-{update.round}", "update").astype(np.float64)
        np.testing.assert_allclose(update.values, update.known(true), atol=1e-3)
    if protocol == "pa-cfl":
        update = next(u for u in found if u.round == 3 and u.user == "user-4")
        model = build(SPEC, seed=0)
        images, labels = truth.get("user-4", "images"), truth.get("user-4", "labels")
        again = local_update(
            model,
            np.array(images),
            np.array(labels),
            parameters=update.start,
            learning_rate=0.01,
            batch_size=64,
            epochs=3,
            mode="fedavg",
            rng=np.random.default_rng(0),
        )
        # All records fit in one batch: the order in which they are drawn does not count.
        np.testing.assert_allclose(update.known(again), update.values, atol=2e-3)


def test_a_view_without_starting_parameters_has_no_updates() -> None:
    transcript, _, knowledge = federation("pa-cfl", rounds=1, similarity="jaccard")
    with pytest.raises(UnmetRequirementsError, match="coordinates and starting"):
        observed_updates(seen(transcript, AS), knowledge, attack="test")


# Membership.


def test_record_gradients_are_those_of_single_records() -> None:
    records = load_dataset("digits").train.take(np.arange(3))
    model = build(SPEC, seed=2)
    parameters = flatten_parameters(model)
    expected = [
        local_update(
            model,
            records.images[i : i + 1],
            records.labels[i : i + 1],
            parameters=parameters,
            learning_rate=1.0,
            batch_size=1,
            epochs=1,
            mode="gradient",
            rng=np.random.default_rng(0),
        )
        for i in range(3)
    ]
    np.testing.assert_allclose(
        record_gradients(model, records, parameters), np.stack(expected), atol=1e-6
    )


def test_the_matched_filter_is_the_log_likelihood_ratio_of_gaussians() -> None:
    """Against SciPy's densities, with the class shares fitted by generalised least squares."""
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    gradients, labels = rng.normal(size=(30, 6)) + 2.0, np.arange(30) % 2
    law = fit_law(gradients, labels.astype(np.int64), classes=2)
    n, noise = 4, 0.3
    spread = law.basis.T @ np.diag(law.variances) @ law.basis
    covariance = spread / n + (law.floor / n + noise**2) * np.eye(6)
    update, record = rng.normal(size=6), rng.normal(size=(1, 6))
    inverse = np.linalg.inv(covariance)
    shares = np.linalg.solve(law.means @ inverse @ law.means.T, law.means @ inverse @ update)
    centre, move = shares @ law.means, (record[0] - law.means[1]) / n
    expected = multivariate_normal.logpdf(
        update, centre + move, covariance
    ) - multivariate_normal.logpdf(update, centre, covariance)
    found = law.log_ratios(update, record, np.array([1]), records=n, noise=noise)
    assert found[0] == pytest.approx(expected)


def test_membership_is_told_undefended_less_under_noise_and_not_from_others_updates() -> None:
    area = {}
    for name, more in (
        ("fedavg", {}),
        ("dp-fedavg", {"noise_multiplier": 0.5}),
        ("dp-fedavg", {"noise_multiplier": 20.0}),
    ):
        transcript, truth, plain = federation(name, rounds=1, **more)
        users = transcript.ids("user")
        knowledge, members = membership_experiment(plain, truth, users, candidates=12, seed=0)
        view = seen(transcript, fedavg.SERVER)
        attack = UpdateMembership()
        area[name, more.get("noise_multiplier", 0.0)] = membership_auc(
            go(attack, view, knowledge), members
        ).value
        if name == "fedavg":
            control = deranged(view, kinds=attack.reads, rng=np.random.default_rng(3))
            other = membership_auc(go(attack, control, knowledge), members)
            assert other.value < 0.65
            ratio = UpdateMembership(method="likelihood-ratio", shadows=6)
            assert membership_auc(go(ratio, view, knowledge), members).value > 0.85
    assert area["fedavg", 0.0] > 0.85
    assert area["fedavg", 0.0] > area["dp-fedavg", 0.5] > area["dp-fedavg", 20.0] - 0.05
    assert area["dp-fedavg", 20.0] < 0.65


@pytest.mark.parametrize("level", ["record", "user"])
def test_shadow_users_clip_and_noise_as_private_users_do(level: str) -> None:
    """Opacus made the run's updates: without noise ours are the same, with it as far apart."""
    clip = 0.5
    more = {"privacy_level": level, "update": "gradient", "clip_norm": clip, "rounds": 1}
    for multiplier in (1e-9, 2.0):
        transcript, truth, _ = federation("dp-fedavg", noise_multiplier=multiplier, **more)
        view = seen(transcript, fedavg.SERVER)
        training = PublishedTraining.of(view, SPEC, attack="test")
        records = LabelledImages(
            np.array(truth.get("user-2", "images")), np.array(truth.get("user-2", "labels"))
        )
        start = transcript.public_arrays["initial-parameters"]
        ours = training.update(records, start, round=1, rng=np.random.default_rng(0))
        difference = ours - truth.get("user-2/round-1", "update")
        steps, noise = training.steps_and_noise(len(records))
        assert steps == 1
        if multiplier < 1:
            assert np.abs(difference).max() < 1e-5
        else:
            # Two independent noises of that deviation.
            tolerance = 6 / np.sqrt(2 * len(ours))
            assert np.std(difference) == pytest.approx(np.sqrt(2) * noise, rel=tolerance)


def test_the_candidates_tell_nothing_and_are_not_among_the_auxiliary_records() -> None:
    transcript, truth, plain = federation("fedavg", rounds=1)
    users = transcript.ids("user")
    knowledge, members = membership_experiment(plain, truth, users, candidates=5, seed=0)
    assert knowledge.candidates is not None
    assert knowledge.auxiliary is not None
    records = knowledge.candidates.records
    held = {image.tobytes() for image in knowledge.auxiliary.images}
    asked = [image.tobytes() for image in records.images]
    assert not held & set(asked)
    own = {
        u: {np.asarray(i, dtype=np.float32).tobytes() for i in truth.get(u, "images")}
        for u in users
    }
    for place, name in enumerate(knowledge.candidates.ids):
        member = bool(members.get(name, "member"))
        assert (asked[place] in own[name.split("/")[0]]) == member
    # Members and others of a user have the same labels.
    for user in users:
        at = knowledge.candidates.of(user)
        inside = np.array([bool(members.get(knowledge.candidates.ids[i], "member")) for i in at])
        labels = records.labels[at]
        np.testing.assert_array_equal(np.sort(labels[inside]), np.sort(labels[~inside]))


def test_candidates_without_a_user_or_twice_are_refused() -> None:
    records = load_dataset("digits").train.take(np.arange(2))
    with pytest.raises(InvalidDataError, match="distinct"):
        Candidates(("user-1/a", "user-1/a"), records)
    with pytest.raises(InvalidDataError, match="slash"):
        Candidates(("a", "b"), records)


def test_membership_needs_candidates_and_sound_options() -> None:
    transcript, _, knowledge = federation("fedavg", rounds=1, users=2)
    with pytest.raises(UnmetRequirementsError, match="candidates"):
        go(UpdateMembership(), seen(transcript, fedavg.SERVER), knowledge)
    with pytest.raises(ConfigurationError, match="method"):
        UpdateMembership(method="guess")  # type: ignore[arg-type]


# Properties.


def test_a_share_of_classes_is_inferred_and_only_from_the_users_own_update() -> None:
    transcript, truth, knowledge = federation("fedavg", rounds=1, users=20)
    attack = PropertyInference(classes=(0, 1, 2, 3, 4), simulated_users=60)
    view = seen(transcript, fedavg.SERVER)
    assert knowledge.auxiliary is not None
    attribute = attack.attribute(knowledge.auxiliary)
    control = deranged(view, kinds=attack.reads, rng=np.random.default_rng(3))
    found, prior, other = (
        mean(share_error(g, truth, attribute=attribute))
        for g in (
            go(attack, view, knowledge),
            attack.baseline(view, knowledge=knowledge, rng=np.random.default_rng(0)),
            go(attack, control, knowledge),
        )
    )
    assert found < 0.12 < prior
    assert other > found + 0.05
    told = mean(majority_accuracy(go(attack, view, knowledge), truth, attribute=attribute))
    assert told >= 0.8


def test_attributes_of_records() -> None:
    images = np.stack([np.full((1, 2, 2), v, dtype=np.float32) for v in (0.1, 0.9)])
    records = LabelledImages(images, np.array([3, 4]))
    assert RecordAttribute(classes=(4, 7)).of(records).tolist() == [False, True]
    assert RecordAttribute(brightness=0.05).share(records) == 1.0
    with pytest.raises(ConfigurationError, match="exactly one"):
        RecordAttribute()


# Laplace noise.


@pytest.mark.parametrize("y", [-3.0, 0.2, 40.0])
def test_the_posterior_mean_under_laplace_noise_agrees_with_quadrature(y: float) -> None:
    m, s, b = 0.5, 0.7, 1.3

    def density(x: float) -> float:
        return float(norm.pdf(x, m, s) * laplace.pdf(y - x, scale=b) / laplace.pdf(y - m, scale=b))

    limits = {"points": [min(max(y, m - 9), m + 9)], "limit": 200}
    total = quad(density, m - 10, m + 10, **limits)[0]
    expected = quad(lambda x: x * density(x), m - 10, m + 10, **limits)[0] / total
    found = laplace_posterior_mean(y, scale=b, prior_mean=m, prior_deviation=s)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_the_posterior_mean_has_less_error_than_the_report_and_the_prior() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = x + rng.laplace(scale=1.0, size=x.shape)
    denoised = laplace_posterior_mean(y, scale=1.0, prior_deviation=1.0)
    errors = [float(np.square(e - x).mean()) for e in (denoised, y, 0 * x)]
    assert errors[0] < 0.75 * min(errors[1:])
    # Least of all linear estimates too: their best has 1 / (1 + 1 / 2) of the prior's error.
    assert errors[0] < 2 / 3


def test_the_log_ratio_of_a_shift_is_that_of_scipys_densities() -> None:
    rng = np.random.default_rng(1)
    y, shift = rng.normal(size=7), rng.normal(size=(3, 7))
    expected = [
        (laplace.logpdf(y - mu, scale=2.0) - laplace.logpdf(y, scale=2.0)).sum() for mu in shift
    ]
    np.testing.assert_allclose(laplace_log_ratio(y, shift, scale=2.0), expected)


def test_labels_are_told_from_noised_remainders_where_noise_is_weak_and_not_where_strong() -> None:
    overlap = {}
    for epsilon0 in (0.001, 50.0):
        transcript, truth, knowledge = federation(
            "pa-cfl",
            rounds=2,
            scheme="clustered",
            similarity="jaccard",
            epsilon0=epsilon0,
            clipping="fixed",
            clip_norm=4.0,
            learning_rate=1e-6,
        )
        attack = LabelsFromNoisedRemainder(simulated_users=1)
        found = go(attack, seen(transcript, MS), knowledge)
        prior = attack.baseline(
            seen(transcript, MS), knowledge=knowledge, rng=np.random.default_rng(0)
        )
        overlap[epsilon0] = mean(label_overlap(found, truth)), mean(label_overlap(prior, truth))
        if epsilon0 > 1:
            assert mean(dominant_label(found, truth)) >= 5 / 6
    assert overlap[50.0][0] > 0.8
    assert overlap[0.001][0] == pytest.approx(overlap[0.001][1], abs=0.02)


# Linking.


def test_updates_are_linked_across_rounds_and_noise_hides_them() -> None:
    rates = {}
    for name, more in (("fedavg", {}), ("dp-fedavg", {"noise_multiplier": 100.0})):
        transcript, _, knowledge = federation(name, rounds=3, users=8, **more)
        hidden, users = pseudonymise(
            transcript, kind=fedavg.UPDATE, round=3, rng=np.random.default_rng(0)
        )
        found = go(GradientLinking(), seen(hidden, fedavg.SERVER), knowledge)
        rates[name] = mean(link_accuracy(found, linking_truth(transcript, users)))
    assert rates["fedavg"] == 1.0
    assert rates["dp-fedavg"] <= 0.5


def test_linking_important_values_needs_their_coordinates() -> None:
    transcript, _, knowledge = federation("pa-cfl", rounds=2, similarity="jaccard")
    hidden, users = pseudonymise(
        transcript, kind=pa_cfl.IMPORTANT_VALUES, round=2, rng=np.random.default_rng(0)
    )
    with pytest.raises(UnmetRequirementsError, match="coordinates"):
        go(GradientLinking(), seen(hidden, AS), knowledge)
    found = go(GradientLinking(), seen(hidden, AS, "user-1"), knowledge)
    assert set(found.target_ids) == set(users)
    assert mean(link_accuracy(found, linking_truth(transcript, users))) > 0.5


def test_what_a_colluding_user_sends_itself_is_not_what_is_linked() -> None:
    transcript, truth, knowledge = federation("pa-cfl", rounds=2, similarity="jaccard")
    run = RecordedRun(transcript, truth, knowledge.auxiliary, {}, "", True)
    cell = linking_cell(
        run,
        GradientLinking(),
        Coalition.of(AS, "user-1"),
        label="AS + 1 user",
        probe=2,
        setting="",
        seed=0,
    )
    hidden = {m.sender for m in cell.transcript.messages} - {p.id for p in transcript.parties}
    kinds = {m.kind for m in cell.transcript.messages if m.sender in hidden}
    assert kinds == {pa_cfl.IMPORTANT_VALUES}


def test_who_is_together_names_users_as_far_as_clusters_differ() -> None:
    """Clusters of 1, 2 and 3 users, the same in both rounds: all that is left is their order."""
    from privaudit.transcript import Party

    recorder = MemoryRecorder()
    clusters = {"user-1": 0, "user-2": 1, "user-3": 1, "user-4": 2, "user-5": 2, "user-6": 2}
    recorder.declare([*(Party(u, "user") for u in clusters), Party(AS, "server")])
    for t in (1, 2, 3):
        for user, cluster in clusters.items():
            recorder.send(
                kind=pa_cfl.CLUSTER_AGGREGATE,
                sender=AS,
                receiver=user,
                round=t,
                arrays={"values": np.array([t, cluster], dtype=np.float32)},
            )
    transcript = recorder.transcript()
    hidden, users = pseudonymise_round(
        transcript, round=3, kinds=(pa_cfl.CLUSTER_AGGREGATE,), rng=np.random.default_rng(0)
    )
    everyone = list(clusters)
    for seed in range(5):
        found = ClusterLinking().run(
            seen(hidden, AS), knowledge=Knowledge(), rng=np.random.default_rng(seed)
        )
        for pseudonym, value in zip(found.target_ids, found.values, strict=True):
            assert clusters[everyone[int(value)]] == clusters[users[pseudonym]]
