"""A run of PA-CFL, message by message, against the table of who sees what (section 6.1)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pa_cfl_runs import (
    AS,
    DEFAULTS,
    DIVERGING,
    MS,
    USERS,
    VARIANTS,
    Run,
    execute,
    federation,
    run_of,
)

from privaudit.datasets.base import ClientData, FederatedData, LabelledImages
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.models import ModelSpec, build, flatten_parameters
from privaudit.protocols.base import RoundMetrics
from privaudit.protocols.baselines.fedavg import FedAvg
from privaudit.protocols.pa_cfl import PACFL, PACFLConfig, kinds
from privaudit.protocols.training import local_update
from privaudit.transcript import (
    Capability,
    Coalition,
    MemoryRecorder,
    NullRecorder,
    Transcript,
)


def kinds_seen(run: Run, server: str) -> Counter[tuple[int | None, str, str, str]]:
    """How many messages of each kind and direction a server alone sees, users not told apart."""
    view = run.transcript.view(Coalition.of(server))
    roles = dict.fromkeys(run.users, "user")
    return Counter(
        (m.round, m.kind, roles.get(m.sender, m.sender), roles.get(m.receiver, m.receiver))
        for m in view.messages
    )


def expected_kinds(variant: str, server: str) -> Counter[tuple[int | None, str, str, str]]:
    """The rows of the table in docs/protocols/pa-cfl.md, written out for each variant."""
    n = USERS
    ms = {
        ("permutation-sequence", "user", MS): n,
        ("global-permutation-sequence", MS, "user"): n,
        ("pre-clustering", MS, AS): 1,
        ("remainder-norm", "user", MS): n,
        ("clipping-threshold", MS, "user"): n,
        ("noised-remainder", "user", MS): n,
        ("shuffled-remainder", MS, AS): n,
    }
    aggregation = {
        ("pre-clustering", MS, AS): 1,
        ("important-values", "user", AS): n,
        ("dataset-size", "user", AS): n,
        ("shuffled-remainder", MS, AS): n,
        ("cluster-aggregate", AS, "user"): n,
    }
    if variant == "fixed clipping":
        del ms["remainder-norm", "user", MS], ms["clipping-threshold", MS, "user"]
    if variant == "PA-CFL*":
        for row in ("remainder-norm", "noised-remainder"):
            del ms[row, "user", MS]
        del ms["clipping-threshold", MS, "user"], ms["shuffled-remainder", MS, AS]
        del aggregation["shuffled-remainder", MS, AS]
        aggregation["plain-remainder", "user", AS] = n
    if variant == "cosine":
        ms["full-update", "user", MS] = n
    rows = ms if server == MS else aggregation
    expected = Counter({(t, *row): count for t in (1, 2) for row, count in rows.items()})
    if variant == "global aggregate" and server == AS:
        del expected[2, "cluster-aggregate", AS, "user"]
        expected[2, "global-aggregate", AS, "user"] = n
    return expected


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("server", [MS, AS])
def test_each_server_sees_exactly_the_kinds_of_the_table(variant: str, server: str) -> None:
    assert kinds_seen(run_of(variant), server) == expected_kinds(variant, server)


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_user_sees_only_its_own_messages(variant: str) -> None:
    run = run_of(variant)
    for user in run.users:
        view = run.transcript.view(Coalition.of(user))
        assert {m.sender for m in view.messages} | {m.receiver for m in view.messages} <= {
            user,
            MS,
            AS,
        }
        per_round = Counter((m.round, m.kind) for m in view.messages)
        assert set(per_round.values()) == {1}, "one message a kind and round"


def test_the_documentation_lists_the_same_kinds_as_the_code() -> None:
    text = (Path(__file__).parents[1] / "docs" / "protocols" / "pa-cfl.md").read_text()
    table = text.split("## One round, message by message")[1].split("Public:")[0]
    documented = set(re.findall(r"`([a-z-]+)`", table))
    default = run_of("default")
    used = {m.kind for m in default.transcript.messages}
    assert documented == used | {"global-aggregate"}
    values = {v for name, v in vars(kinds).items() if name.isupper() and isinstance(v, str)}
    assert values - {MS, AS} == documented | {"full-update", "plain-remainder"}
    for kind in ("full-update", "protection = false"):
        assert kind in text


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_aggregation_server_never_sees_an_order_of_coordinates(variant: str) -> None:
    run = run_of(variant)
    view = run.transcript.view(Coalition.of(AS))
    for t in (1, 2):
        hidden = [run.permutation(t), *run.sent(kinds.PERMUTATION_SEQUENCE, t, "indices").values()]
        for message in view.messages:
            for array in message.arrays.values():
                assert not any(np.array_equal(array, h) for h in hidden)
    assert not {kinds.GLOBAL_PERMUTATION, kinds.PERMUTATION_SEQUENCE} & {
        m.kind for m in view.messages
    }
    assert set(view.public) == {"configuration", "model", "k"}
    assert set(view.public_arrays) == {"initial-parameters"}


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "cosine"])
def test_the_management_server_never_sees_an_important_value(variant: str) -> None:
    run = run_of(variant)
    view = run.transcript.view(Coalition.of(MS))
    for t in (1, 2):
        for user, values in run.sent(kinds.IMPORTANT_VALUES, t).items():
            for message in view.messages:
                for array in message.arrays.values():
                    # A noised value may equal another's important value by chance, not several.
                    found = np.isin(values[values != 0], array.astype(np.float32)).sum()
                    assert found <= 2 < run.k, f"{message.kind} holds values of {user}"


def test_every_message_has_the_shape_that_its_kind_documents() -> None:
    run = run_of("default")
    d, k = run.dimension, run.k
    assert k == int(0.0025 * d)
    shapes = {
        kinds.PERMUTATION_SEQUENCE: {"indices": ("<i8", (k,))},
        kinds.GLOBAL_PERMUTATION: {"indices": ("<i8", (k,))},
        kinds.PRE_CLUSTERING: {"assignment": ("<i8", (USERS,))},
        kinds.IMPORTANT_VALUES: {"values": ("<f4", (k,))},
        kinds.DATASET_SIZE: {"records": ("<i8", ())},
        kinds.REMAINDER_NORM: {"norm": ("<f8", ())},
        kinds.CLIPPING_THRESHOLD: {"threshold": ("<f8", ())},
        kinds.NOISED_REMAINDER: {"values": ("<f4", (d - k,))},
        kinds.SHUFFLED_REMAINDER: {"values": ("<f4", (d - k,))},
        kinds.CLUSTER_AGGREGATE: {"values": ("<f4", (d,))},
    }
    for message in run.transcript.messages:
        found = {name: (s.dtype, s.shape) for name, s in message.specs.items()}
        assert found == shapes[message.kind], message.kind


@pytest.mark.parametrize("variant", ["default", "fixed clipping", "random pre-clusters"])
def test_shuffled_columns_are_those_of_the_pre_cluster_in_another_order(variant: str) -> None:
    run = run_of(variant)
    moved = 0
    for t in (1, 2):
        noised = run.sent(kinds.NOISED_REMAINDER, t)
        shuffled = {
            str(m.meta["user"]): m.arrays["values"] for m in run.of(kinds.SHUFFLED_REMAINDER, t)
        }
        assert set(shuffled) == set(run.users)
        for members in run.clusters(t).values():
            assert len(members) >= 2
            before = np.stack([noised[u] for u in members])
            after = np.stack([shuffled[u] for u in members])
            assert (np.sort(before, axis=0) == np.sort(after, axis=0)).all()
            moved += int((before != after).sum())
    assert moved > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_important_values_are_the_raw_update_at_the_global_permutation(variant: str) -> None:
    run = run_of(variant)
    for t in (1, 2):
        for user, values in run.sent(kinds.IMPORTANT_VALUES, t).items():
            assert (values == run.update(user, t)[run.permutation(t)]).all()


def test_a_permutation_sequence_orders_the_largest_magnitudes_of_the_update() -> None:
    run = run_of("default")
    for t in (1, 2):
        for user, indices in run.sent(kinds.PERMUTATION_SEQUENCE, t, "indices").items():
            magnitude = np.abs(run.update(user, t).astype(np.float64))
            expected = np.lexsort((np.arange(run.dimension), -magnitude))[: run.k]
            assert (indices == expected).all()
        assert all(
            (v == run.permutation(t)).all()
            for v in run.received(kinds.GLOBAL_PERMUTATION, t, "indices").values()
        )


def test_the_threshold_is_the_median_of_the_norms_of_the_less_important_values() -> None:
    run = run_of("default")
    for t in (1, 2):
        norms = {
            user: float(np.linalg.norm(run.update(user, t)[run.rest(t)].astype(np.float64)))
            for user in run.users
        }
        sent = run.sent(kinds.REMAINDER_NORM, t, "norm")
        assert {u: float(n) for u, n in sent.items()} == pytest.approx(norms)
        told = run.received(kinds.CLIPPING_THRESHOLD, t, "threshold")
        (threshold,) = {float(v) for v in told.values()}
        assert threshold == pytest.approx(float(np.median(list(norms.values()))))


def test_what_is_added_to_the_clipped_values_has_the_scale_of_the_mechanism() -> None:
    run = execute(federation(), rounds=1, clipping="fixed", clip_norm=0.5, epsilon0=4.0)
    residuals = []
    for user, report in run.sent(kinds.NOISED_REMAINDER, 1).items():
        rest = run.update(user, 1)[run.rest(1)].astype(np.float64)
        clipped = rest * min(1.0, 0.5 / np.linalg.norm(rest))
        residuals.append(report - clipped)
        assert (run.truth.get(f"{user}/round-1", "noised") == report).all()
    added = np.concatenate(residuals)
    # Laplace of scale b: the mean magnitude is b, with standard error b / sqrt(n).
    scale = 2 * 0.5 / 4.0
    assert np.abs(added).mean() == pytest.approx(scale, abs=5 * scale / np.sqrt(len(added)))


def parameters_after(run: Run, user: str, rounds: int) -> np.ndarray:
    """Parameters that follow from the public start and the messages that the user received."""
    theta = run.transcript.public_arrays["initial-parameters"].copy()
    step = np.float32(run.config.learning_rate * run.config.server_learning_rate)
    for t in range(1, rounds + 1):
        order = np.concatenate([run.permutation(t), run.rest(t)])
        received = run.received(kinds.CLUSTER_AGGREGATE, t) | run.received(
            kinds.GLOBAL_AGGREGATE, t
        )
        theta[order] = theta[order] - step * received[user]
    return theta


@pytest.mark.parametrize("variant", ["default", "PA-CFL*", "global aggregate"])
def test_the_next_update_is_computed_from_what_the_user_received(variant: str) -> None:
    """With one gradient over all records there is no randomness in local training."""
    data = federation()
    run = execute(data, update="gradient", **VARIANTS[variant])
    public: Any = run.transcript.public["model"]
    model = build(
        ModelSpec(public["name"], tuple(public["input_shape"]), public["classes"]), seed=0
    )
    for position, user in enumerate(run.users):
        client = data.clients[position]
        for t in (1, 2):
            expected = local_update(
                model,
                client.train.images,
                client.train.labels,
                parameters=parameters_after(run, user, t - 1),
                learning_rate=run.config.learning_rate,
                batch_size=1,
                epochs=1,
                mode="gradient",
                rng=np.random.default_rng(0),
            )
            assert (run.update(user, t) == expected).all()
    assert Capability.SINGLE_LOCAL_STEP in run.transcript.facts


def test_an_aggregate_lies_in_the_span_of_what_the_aggregation_server_received() -> None:
    run = run_of("default")
    for t in (1, 2):
        important = run.sent(kinds.IMPORTANT_VALUES, t)
        shuffled = {
            str(m.meta["user"]): m.arrays["values"] for m in run.of("shuffled-remainder", t)
        }
        held = np.stack([np.concatenate([important[u], shuffled[u]]) for u in run.users])
        for user, aggregate in run.received(kinds.CLUSTER_AGGREGATE, t).items():
            weights, *_ = np.linalg.lstsq(
                held.T.astype(np.float64), aggregate.astype(np.float64), rcond=None
            )
            assert weights.sum() == pytest.approx(1, abs=1e-4)
            assert weights.min() > -1e-5
            assert weights[run.users.index(user)] > 0.01, "a user is in its own cluster"
            assert np.abs(held.T @ weights - aggregate).max() < 1e-5 * np.abs(aggregate).max()


def test_every_kappa_rounds_all_receive_one_aggregate_of_norm_at_most_one() -> None:
    run = execute(federation(), rounds=4, global_period=2, similarity="jaccard")
    for t in range(1, 5):
        everyone = run.received(kinds.GLOBAL_AGGREGATE, t)
        clusters = run.received(kinds.CLUSTER_AGGREGATE, t)
        if t % 2:
            assert (set(everyone), set(clusters)) == (set(), set(run.users))
        else:
            assert (set(everyone), set(clusters)) == (set(run.users), set())
            assert len({v.tobytes() for v in everyone.values()}) == 1
            assert 0 < np.linalg.norm(everyone[run.users[0]]) <= 1 + 1e-6
    never = execute(federation(), rounds=2, global_period=0, similarity="jaccard")
    assert not [m for m in never.transcript.messages if m.kind == kinds.GLOBAL_AGGREGATE]


def test_without_pre_clustering_the_groups_are_random_and_balanced() -> None:
    run = execute(federation(), pre_clustering=False, random_clusters=3, rounds=4)
    sizes = [sorted(len(c) for c in run.clusters(t).values()) for t in range(1, 5)]
    assert sizes == [[2, 2, 2]] * 4
    assert len({str(sorted(map(sorted, run.clusters(t).values()))) for t in range(1, 5)}) > 1


def test_without_fine_clustering_aggregates_are_those_of_the_pre_clusters() -> None:
    run = run_of("no fine clusters")
    for t in (1, 2):
        received = run.received(kinds.CLUSTER_AGGREGATE, t)
        by_aggregate: dict[bytes, set[str]] = {}
        for user, values in received.items():
            by_aggregate.setdefault(values.tobytes(), set()).add(user)
        assert sorted(map(sorted, by_aggregate.values())) == sorted(
            map(sorted, run.clusters(t).values())
        )


def content(transcript: Transcript) -> list[tuple[Any, ...]]:
    return [
        (m.seq, m.round, m.kind, m.sender, m.receiver, str(dict(m.meta)), name, a.tobytes())
        for m in transcript.messages
        for name, a in m.arrays.items()
    ]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first, again = (execute(federation(), rounds=1) for _ in range(2))
    assert content(first.transcript) == content(again.transcript)
    other = execute(federation(), rounds=1, seed=1)
    assert content(other.transcript) != content(first.transcript)
    assert (
        other.transcript.public_arrays["initial-parameters"]
        != first.transcript.public_arrays["initial-parameters"]
    ).any()


def test_a_run_ends_alike_whether_or_not_it_is_recorded() -> None:
    recorded = execute(federation(), rounds=1).outcome
    config = PACFLConfig(**DEFAULTS | {"rounds": 1})
    told: list[tuple[int, int, RoundMetrics]] = []
    unrecorded = PACFL(config).run(
        federation(),
        rng=np.random.default_rng(0),
        recorder=NullRecorder(),
        progress=lambda done, total, metrics: told.append((done, total, metrics)),
    )
    assert unrecorded == recorded
    assert told == [(1, 1, recorded.metrics[0])]
    assert {"accuracy", "pre_ari", "pre_clusters", "clipping_threshold"} <= set(
        recorded.metrics[0].values
    )


def test_a_run_that_diverges_is_an_outcome_that_names_the_round() -> None:
    run = execute(federation(), **DIVERGING)
    assert run.outcome.status == "diverged"
    begun = max(m.round or 0 for m in run.transcript.messages)
    assert 1 <= run.outcome.rounds < 5
    assert run.outcome.reason.startswith(f"diverged in round {run.outcome.rounds + 1}: ")
    assert run.outcome.rounds in (begun - 1, begun)
    assert len(run.outcome.metrics) == run.outcome.rounds
    for message in run.transcript.messages:
        for array in message.arrays.values():
            assert array.dtype.kind != "f" or np.isfinite(array).all()


def damaged(data: FederatedData, position: int, value: float) -> FederatedData:
    client = data.clients[position]
    images = client.train.images.copy()
    images[0, 0, 3, 3] = value
    train = LabelledImages(images, client.train.labels)
    broken = ClientData(client.party, train, client.test)
    clients = (*data.clients[:position], broken, *data.clients[position + 1 :])
    return replace(data, clients=clients)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("protocol", [PACFL, FedAvg])
def test_an_image_that_is_not_finite_is_an_error_that_names_its_user(
    protocol: Any, value: float
) -> None:
    keys = protocol.Config.model_fields
    config = protocol.Config(**{k: v for k, v in DEFAULTS.items() if k in keys})
    with pytest.raises(InvalidDataError, match=r"the update of user-4 in round 1 is not finite"):
        protocol(config).run(
            damaged(federation(), 3, value),
            rng=np.random.default_rng(0),
            recorder=MemoryRecorder(),
        )


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"top_k_fraction": 1e-9}, "top_k_fraction = 1e-09 gives k = 0"),
        ({"top_k_fraction": 1.0}, "top_k_fraction = 1.0 gives k ="),
        ({"top_k": 10**7}, "top_k = 10000000 gives k = 10000000"),
    ],
)
def test_a_k_that_leaves_one_part_empty_is_refused(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        execute(federation(), **parameters)


def test_the_smallest_and_largest_k_run() -> None:
    data = federation()
    d = execute(data, rounds=1, top_k=1).dimension
    largest = execute(
        data, rounds=1, top_k=d - 1, similarity="jaccard", clipping="fixed", clip_norm=1.0
    )
    assert largest.outcome.status == "completed"
    assert largest.sent(kinds.NOISED_REMAINDER, 1)["user-1"].shape == (1,)


@pytest.mark.parametrize(("mode", "records"), [("gradient", 1), ("fedavg", 1), ("fedavg", 3)])
def test_a_batch_of_one_is_refused_where_batch_normalisation_cannot_train_on_it(
    mode: str, records: int
) -> None:
    model = build(ModelSpec("resnet10", (1, 8, 8), 10), seed=0)
    before = {name: value.clone() for name, value in model.named_buffers()}
    with pytest.raises(ConfigurationError, match="batch of one record"):
        local_update(
            model,
            np.zeros((records, 1, 8, 8), np.float32),
            np.zeros(records, np.int64),
            parameters=flatten_parameters(model),
            learning_rate=0.1,
            batch_size=2,
            epochs=1,
            mode=mode,
            rng=np.random.default_rng(0),
        )
    assert all(value.equal(before[name]) for name, value in model.named_buffers())
