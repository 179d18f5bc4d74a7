"""Labels from counts, probes and lone models; vectors from cosines."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference import (
    INJECTED_ROLE,
    LabelsFromCounts,
    LabelsFromLoneModel,
    LabelsFromSimilarity,
    inject_probes,
    quantised_cosine,
)
from privaudit.attacks.inference._histograms import fitted_shares
from privaudit.attacks.reconstruction import SimilarityReconstruction
from privaudit.datasets import load_dataset
from privaudit.datasets.partition import partition
from privaudit.errors import ConfigurationError, InvalidDataError, UnmetRequirementsError
from privaudit.models import ModelSpec
from privaudit.protocols.disue import DisUE, DisUEConfig, kinds
from privaudit.scoring.labels import dominant_label, total_variation
from privaudit.scoring.vectors import cosine_beyond, vector_cosine
from privaudit.secure_computation import pcsc
from privaudit.secure_computation.quantisation import quantise
from privaudit.testing import check_attack
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Party, Truth

SERVER = kinds.SERVER
ALL = frozenset(Capability)
MODEL = ModelSpec("mlp", (1, 8, 8), 10)


@cache
def federation():
    return partition(
        load_dataset("digits"),
        users=10,
        scheme="dirichlet",
        alpha=0.1,
        records_per_user=60,
        auxiliary_records=100,
        rng=np.random.default_rng(0),
    )


@cache
def recorded(similarity_on="delta", rounds=2):
    recorder = MemoryRecorder()
    config = DisUEConfig(
        model="mlp",
        rounds=rounds,
        participation=1.0,
        similarity="plain",
        similarity_on=similarity_on,
        distillation="none",
    )
    DisUE(config).run(federation(), rng=np.random.default_rng(1), recorder=recorder)
    return recorder.transcript(), recorder.truth()


def knowledge():
    return Knowledge(MODEL, None, federation().auxiliary)


def vectors_of(transcript, truth, t):
    return {u: truth.get(f"{u}/round-{t}", "vector") for u in transcript.ids("user")}


@cache
def probed(similarity_on="delta", t=1):
    transcript, truth = recorded(similarity_on)
    treated = inject_probes(
        transcript,
        round=t,
        vectors=vectors_of(transcript, truth, t),
        knowledge=knowledge(),
        rng=np.random.default_rng(0),
    )
    return treated, truth


def view_of(transcript, *members, capabilities=ALL):
    return transcript.view(Coalition.of(SERVER, *members, capabilities=capabilities))


def run(attack, view, method="run", known=None, seed=0):
    return getattr(attack, method)(
        view, knowledge=known or knowledge(), rng=np.random.default_rng(seed)
    )


def mean(scores):
    return float(np.mean(list(scores.per_target.values())))


# Class counts.


def test_class_counts_are_the_histogram_itself():
    transcript, truth = recorded()
    view = view_of(transcript)
    guesses = run(LabelsFromCounts(), view)
    assert set(guesses.target_ids) == set(transcript.ids("user"))
    assert mean(total_variation(guesses, truth)) == 0.0
    assert list(guesses.scores) == [60.0] * 10
    prior = run(LabelsFromCounts(), view, "baseline")
    assert mean(total_variation(prior, truth)) > 0.5
    check_attack(LabelsFromCounts(), view, knowledge(), truth=truth)


def counts_run(counts):
    recorder = MemoryRecorder()
    recorder.declare([Party("user-0", "user"), Party(SERVER, "server")])
    recorder.send(
        kind=kinds.CLASS_COUNTS,
        sender="user-0",
        receiver=SERVER,
        round=1,
        arrays={"counts": np.array(counts)},
    )
    return recorder.transcript()


@pytest.mark.parametrize("counts", [[0, 0], [3, -1], [[1, 2]]])
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(InvalidDataError, match="user-0"):
        run(LabelsFromCounts(), view_of(counts_run(counts)))


def test_counts_of_members_or_of_other_rounds_are_no_target():
    transcript = counts_run([3, 1])
    for view, attack in (
        (view_of(transcript, "user-0"), LabelsFromCounts()),
        (view_of(transcript), LabelsFromCounts(round=2)),
    ):
        with pytest.raises(UnmetRequirementsError, match="class-counts"):
            run(attack, view)


def test_without_auxiliary_records_the_prior_is_uniform():
    prior = run(LabelsFromCounts(), view_of(counts_run([3, 1])), "baseline", known=Knowledge())
    assert list(prior.values[0]) == [0.5, 0.5]


# Probes.


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_the_fit_from_inner_products_is_that_of_the_vectors_themselves(k, seed):
    rng = np.random.default_rng(seed)
    known, target = rng.normal(size=(k, 12)) + 0.5, rng.normal(size=12) + 0.5
    expected, _ = nnls(known.T, target)
    found = fitted_shares(known @ known.T, known @ target)
    if expected.sum() > 1e-9:
        np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-7)
    assert found.sum() == pytest.approx(1.0)


def test_shares_of_a_mixture_are_found():
    known = np.random.default_rng(0).normal(size=(4, 30))
    shares = np.array([0.5, 0.0, 0.2, 0.3])
    np.testing.assert_allclose(
        fitted_shares(known @ known.T, 7 * known @ (shares @ known)), shares, atol=1e-9
    )


@pytest.mark.parametrize("similarity_on", ["params", "delta"])
def test_probes_tell_dominant_label_and_histogram_from_cosines(similarity_on):
    treated, truth = probed(similarity_on)
    view = view_of(treated, *treated.ids(INJECTED_ROLE))
    attack = LabelsFromSimilarity()
    guesses, prior = run(attack, view), run(attack, view, "baseline")
    assert set(guesses.target_ids) == set(treated.ids("user"))
    assert mean(dominant_label(guesses, truth)) >= 0.8
    assert mean(total_variation(guesses, truth)) < 0.25 < 0.5 < mean(total_variation(prior, truth))
    nearest = run(LabelsFromSimilarity(method="nearest"), view)
    assert mean(dominant_label(nearest, truth)) >= 0.8


def test_injected_similarities_are_those_of_the_scheme_itself():
    transcript, truth = recorded()
    vectors = dict(list(vectors_of(transcript, truth, 1).items())[:1])
    sizes = pcsc.Parameters(512, 200, 128, 128)

    def encrypted(a, b):
        source = np.random.default_rng(5)
        x, y = quantise(a).values, quantise(b).values
        keys = pcsc.generate(sizes, source=source)
        challenge = pcsc.encrypt(x, keys, parameters=sizes, source=source)
        response = pcsc.respond(challenge, y, parameters=sizes, source=source)
        product = pcsc.decode(response, keys)
        return pcsc.cosine(product, pcsc.squared_norm(x), response.squared_norm)

    plain, real = (
        inject_probes(
            transcript,
            round=1,
            vectors=vectors,
            knowledge=knowledge(),
            rng=np.random.default_rng(0),
            similarity=how,
        )
        for how in (quantised_cosine, encrypted)
    )
    for a, b in zip(plain.messages, real.messages, strict=True):
        if a.kind == kinds.SIMILARITY_VALUES:
            np.testing.assert_allclose(a.arrays["cosines"], b.arrays["cosines"], rtol=1e-12)


def test_probing_is_active_and_refused_where_nobody_was_injected():
    transcript, _ = recorded()
    with pytest.raises(UnmetRequirementsError, match="does not show injected-clients"):
        run(LabelsFromSimilarity(), view_of(transcript))
    treated, _ = probed()
    injected = treated.ids(INJECTED_ROLE)
    with pytest.raises(UnmetRequirementsError, match="does not grant"):
        run(
            LabelsFromSimilarity(),
            view_of(treated, *injected, capabilities=ALL - {Capability.INJECTED_CLIENTS}),
        )
    with pytest.raises(UnmetRequirementsError, match="holds no probes"):
        run(LabelsFromSimilarity(), view_of(treated))
    with pytest.raises(UnmetRequirementsError, match="round 2; rounds with some: \\[1\\]"):
        run(LabelsFromSimilarity(round=2), view_of(treated, *injected))
    with pytest.raises(ConfigurationError, match="'fit' or 'nearest'"):
        LabelsFromSimilarity(method="best")


def test_probes_are_compared_with_clients_of_the_run_only():
    transcript, truth = recorded()
    vectors = {"nobody": vectors_of(transcript, truth, 1)["user-1"]}
    with pytest.raises(ConfigurationError, match="nobody"):
        inject_probes(
            transcript,
            round=1,
            vectors=vectors,
            knowledge=knowledge(),
            rng=np.random.default_rng(0),
        )


def test_probing_conforms():
    treated, truth = probed()
    view = view_of(treated, *treated.ids(INJECTED_ROLE))
    check_attack(LabelsFromSimilarity(), view, knowledge(), truth=truth)


# Lone models.


def alone(transcript, client):
    """The view of a server under secure aggregation, of whose clients one is alone."""
    view = view_of(transcript)
    kept = [m for m in view.messages if m.kind != kinds.PARAMETERS or m.sender == client]
    return type(view)(
        view.coalition,
        view.parties,
        tuple(kept),
        {},
        view.public,
        view.public_arrays,
        view.capabilities,
    )


def test_a_client_alone_in_its_cluster_shows_its_labels():
    transcript, truth = recorded()
    found, prior = [], []
    for client in transcript.ids("user"):
        view = alone(transcript, client)
        guesses = run(LabelsFromLoneModel(), view)
        assert guesses.target_ids == (client,)
        found.append(mean(total_variation(guesses, truth)))
        prior.append(mean(total_variation(run(LabelsFromLoneModel(), view, "baseline"), truth)))
    assert np.mean(found) < 0.25 < 0.5 < np.mean(prior)


def test_inference_from_a_lone_model_conforms_and_needs_one():
    transcript, truth = recorded()
    check_attack(LabelsFromLoneModel(), alone(transcript, "user-2"), knowledge(), truth=truth)
    with pytest.raises(UnmetRequirementsError, match="alone in its cluster"):
        run(LabelsFromLoneModel(), alone(transcript, "nobody"))


# Reconstruction.


def similar(vectors, members, *, secret="quantised"):
    """A round in which the server was told all cosines, and members hold their own vectors."""
    recorder = MemoryRecorder()
    names = [f"user-{i}" for i in range(len(vectors))]
    recorder.declare([*(Party(n, "user") for n in names), Party(SERVER, "server")])
    recorder.publish("configuration", {"similarity_on": "params"})
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    for name, vector in zip(names, vectors, strict=True):
        start = {"parameters": np.ones(vectors.shape[1], np.float32)}
        recorder.send(kind=kinds.GLOBAL_MODEL, sender=SERVER, receiver=name, round=1, arrays=start)
        recorder.note_truth(f"{name}/round-1", vector=vector)
        if name in members:
            recorder.keep_secret(name, f"round-1/{secret}", vector)
    recorder.send(
        kind=kinds.SIMILARITY_VALUES,
        sender="user-0",
        receiver=SERVER,
        round=1,
        arrays={"cosines": np.array([units[i] @ units[j] for i, j in pairs])},
        meta={"pairs": [[names[i], names[j]] for i, j in pairs]},
    )
    return recorder.transcript(), recorder.truth()


def test_a_vector_in_the_span_of_known_ones_is_rebuilt_and_another_is_projected():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(3, 20))
    inside, outside = np.array([1.0, -2.0, 0.5]) @ known, rng.normal(size=20)
    members = [f"user-{i}" for i in range(3)]
    transcript, truth = similar(np.vstack([known, inside, outside]), members)
    guesses = run(SimilarityReconstruction(), view_of(transcript, *members))
    assert guesses.target_ids == ("user-3/round-1", "user-4/round-1")
    scores = vector_cosine(guesses, truth).per_target
    assert scores["user-3/round-1"] == pytest.approx(1.0)
    projection = np.linalg.lstsq(known.T, outside, rcond=None)[0] @ known
    share = np.linalg.norm(projection) / np.linalg.norm(outside)
    assert scores["user-4/round-1"] == pytest.approx(share)
    np.testing.assert_allclose(guesses.scores, [1.0, share])


def test_the_nearest_vector_to_the_baseline_has_the_given_cosines():
    """What lies beyond the baseline is corrected by the known vectors, and nothing else."""
    rng = np.random.default_rng(1)
    vectors = 1 + 0.3 * rng.normal(size=(6, 30))
    members = [f"user-{i}" for i in range(4)]
    transcript, truth = similar(vectors, members)
    view = view_of(transcript, *members)
    attack = SimilarityReconstruction(estimate="nearest")
    guesses, prior = run(attack, view), run(attack, view, "baseline")
    np.testing.assert_allclose(prior.values[0], np.full(30, 30**-0.5))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for value, target in zip(guesses.values, units[4:], strict=True):
        ratios = (units[:4] @ value) / (units[:4] @ target)
        np.testing.assert_allclose(ratios, ratios[0])  # but for the norm of one
        orthogonal = rng.normal(size=30)
        orthogonal -= np.linalg.lstsq(units[:4].T, orthogonal, rcond=None)[0] @ units[:4]
        assert value @ orthogonal == pytest.approx(ratios[0] * prior.values[0] @ orthogonal)
    assert mean(vector_cosine(guesses, truth)) > mean(vector_cosine(prior, truth))


@pytest.mark.parametrize("similarity_on", ["params", "delta"])
def test_colluders_rebuild_more_than_the_baseline_says(similarity_on):
    transcript, truth = recorded(similarity_on)
    members = transcript.ids("user")[:6]
    attack = SimilarityReconstruction(round=2)
    view = view_of(transcript, *members)
    guesses, prior = run(attack, view), run(attack, view, "baseline")
    assert set(guesses.target_ids) == {f"{u}/round-2" for u in transcript.ids("user")[6:]}
    beyond = cosine_beyond(prior.values[0])
    assert mean(beyond(prior, truth)) == 0.0
    assert mean(beyond(guesses, truth)) > 0.2
    check_attack(attack, view, knowledge(), truth=truth)


def test_a_coalition_without_a_client_rebuilds_nothing():
    transcript, _ = recorded()
    with pytest.raises(UnmetRequirementsError, match="no client of its own"):
        run(SimilarityReconstruction(), view_of(transcript))
    with pytest.raises(ConfigurationError, match="'span' or 'nearest'"):
        SimilarityReconstruction(estimate="best")


# Scores of vectors.


def test_vectors_are_scored_by_cosine_with_and_without_what_all_know():
    reference = np.array([1.0, 0.0, 0.0])
    truth = Truth({"a": {"vector": np.array([3.0, 4.0, 0.0])}})
    of = {
        "reference": reference,
        "half": np.array([0.0, 2.0, 0.0]),
        "opposite": np.array([5.0, -1.0, 0.0]),
        "zero": np.zeros(3),
    }
    expected = {"reference": (0.6, 0.0), "half": (0.8, 1.0), "zero": (0.0, 0.0)}
    expected["opposite"] = (11 / 5 / 26**0.5, -1.0)
    for name, guess in of.items():
        guesses = Guesses(("a",), (guess,), np.zeros(1))
        found = (
            vector_cosine(guesses, truth).per_target["a"],
            cosine_beyond(2 * reference)(guesses, truth).per_target["a"],
        )
        assert found == pytest.approx(expected[name]), name


def test_vectors_of_another_length_and_references_of_nothing_are_refused():
    truth = Truth({"a": {"vector": np.zeros(3)}})
    with pytest.raises(InvalidDataError, match=r"\(2,\)"):
        vector_cosine(Guesses(("a",), (np.zeros(2),), np.zeros(1)), truth)
    with pytest.raises(InvalidDataError, match="zero or not finite"):
        cosine_beyond(np.zeros(3))
