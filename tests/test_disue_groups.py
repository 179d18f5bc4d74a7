"""What DisUE's server makes of the models, under every clustering and either aggregation."""

from __future__ import annotations

import numpy as np
import pytest
from disue_runs import CLIENTS, SERVER, VARIANTS, execute, federation, run_of

from privaudit.datasets import load_dataset
from privaudit.datasets.partition import single_record_users
from privaudit.transcript import Capability


@pytest.mark.parametrize("variant", [*VARIANTS])
def test_cluster_models_are_means_and_their_average_starts_distillation(variant: str) -> None:
    run = run_of(variant)
    data = dict(zip(run.users, federation().clients, strict=True))
    for t in (1, 2):
        groups = run.groups(t)
        models, means = run.server("cluster-models", t), []
        for group in groups:
            own = [run.truth.get(f"{c}/round-{t}", "parameters") for c in group]
            means.append(np.average(own, axis=0, weights=[len(data[c].train) for c in group]))
        tolerance = 1e-6 if variant == "secagg" else 1e-7
        assert models == pytest.approx(np.array(means), abs=tolerance)
        average = np.average(models, axis=0, weights=[len(g) for g in groups])
        # All clients have as many records.
        assert run.server("average", t) == pytest.approx(average, abs=1e-6)
        assert (run.server("global-model", t) != run.server("average", t)).any()
    for message in run.of("global-model", 2):
        np.testing.assert_array_equal(message.arrays["parameters"], run.server("global-model", 1))


def test_without_distillation_the_global_model_is_that_of_fedavg_whatever_the_groups() -> None:
    for clustering in ("affinity-propagation", "pacfl"):
        run = execute(federation(), similarity="plain", clustering=clustering, distillation="none")
        for t in (1, 2):
            # All clients have as many records.
            mean = run.true("parameters", t).astype(np.float64).mean(axis=0)
            assert run.server("global-model", t) == pytest.approx(mean, abs=1e-6)
        assert "generator" not in str(run.transcript.secrets[SERVER].keys())


def test_masked_models_add_up_to_the_cluster_and_a_lonely_one_is_plain() -> None:
    run, lonely, masked = run_of("secagg"), 0, 0
    for t in (1, 2):
        groups = run.groups(t)
        sent = {m.sender: m.arrays["values"] for m in run.of("masked-parameters", t)}
        plain = {m.sender for m in run.of("parameters", t)}
        peers = {m.receiver: m.meta["peers"] for m in run.of("cluster-peers", t)}
        for group, model in zip(groups, run.server("cluster-models", t), strict=True):
            if len(group) == 1:
                lonely += 1
                assert group[0] in plain
                assert group[0] not in sent
                continue
            masked += len(group)
            total = np.sum([sent[c] for c in group], axis=0, dtype=np.uint64).view(np.int64)
            assert total / 2**24 / (40 * len(group)) == pytest.approx(model, abs=1e-6)
            for c in group:
                assert c not in plain
                assert list(peers[c]) == [o for o in group if o != c]
                own = run.truth.get(f"{c}/round-{t}", "parameters") * 40 * 2.0**24
                assert (sent[c].view(np.int64) != np.rint(own)).mean() > 0.99
                for other in peers[c]:
                    held = run.transcript.secrets
                    np.testing.assert_array_equal(
                        held[c][f"round-{t}/mask-seed/{other}"],
                        held[other][f"round-{t}/mask-seed/{c}"],
                    )
    assert masked
    assert lonely, "the fixture has a cluster of one"
    assert not any("seed" in name for name in run.transcript.secrets[SERVER])


def test_under_cluster_starts_a_client_gets_the_model_of_its_cluster() -> None:
    run, found = run_of("cfl"), 0
    assert len(run.groups(1)) > 1
    models = {
        client: model
        for group, model in zip(run.groups(1), run.server("cluster-models", 1), strict=True)
        for client in group
    }
    for message in run.of("cluster-model", 2):
        found += 1
        np.testing.assert_array_equal(message.arrays["parameters"], models[message.receiver])
    assert found == len(set(run.clients(1)) & set(run.clients(2)))
    assert found + len(run.of("global-model", 2)) == CLIENTS


def test_clients_of_ifca_choose_among_models_that_learn() -> None:
    run = run_of("ifca")
    choices = {m.sender: int(m.arrays["cluster"]) for m in run.of("cluster-choice", 1)}
    offered = [m.arrays["parameters"] for m in run.of("cluster-models", 1)]
    for group in run.groups(1):
        assert len({choices[c] for c in group}) == 1
    assert len(run.groups(1)) == len(set(choices.values()))
    np.testing.assert_array_equal(offered[0][0], run.transcript.public_arrays["initial-parameters"])
    later = run.of("cluster-models", 2)[0].arrays["parameters"]
    for group, model in zip(run.groups(1), run.server("cluster-models", 1), strict=True):
        np.testing.assert_array_equal(later[choices[group[0]]], model)


def test_profiles_are_coordinates_of_the_gradient_and_subspaces_are_sent_once() -> None:
    run = run_of("cfl-gp")
    coordinates = run.transcript.public_arrays["profile-coordinates"]
    gradients = execute(federation(), update="gradient", similarity="plain", rounds=1)
    for message in run.of("gradient-profile", 1):
        expected = gradients.truth.get(f"{message.sender}/round-1", "update")[coordinates]
        np.testing.assert_array_equal(message.arrays["values"], expected)
    senders = [m.sender for m in run_of("pacfl").transcript.messages if m.kind == "subspace"]
    assert len(senders) == len(set(senders)) == len({*run.clients(1), *run.clients(2)})


def test_a_single_step_on_a_single_record_can_be_read_off_the_models() -> None:
    """What gradient inversion starts from once a model was recovered."""
    data = single_record_users(
        load_dataset("digits"), users=4, auxiliary_records=20, rng=np.random.default_rng(0)
    )
    run = execute(data, update="gradient", rounds=1, participation=1.0)
    assert {Capability.SINGLE_LOCAL_STEP, Capability.SINGLE_RECORD_UPDATES} <= run.transcript.facts
    start = run.of("global-model", 1)[0].arrays["parameters"]
    for message in run.of("parameters", 1):
        read = (start - message.arrays["parameters"]) / np.float32(run.config.learning_rate)
        update = run.truth.get(f"{message.sender}/round-1", "update")
        assert read == pytest.approx(update, abs=2e-6)
