"""Bad input, fallbacks, divergence, the ledger, and the command line of DisUE."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import Ended, called, contents, privaudit
from disue_runs import CLIENTS, DEFAULTS, SERVER, VARIANTS, execute, federation, run_of
from pydantic import ValidationError

from privaudit.datasets.base import ClientData, FederatedData, LabelledImages
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.ledger import UnprotectedRelease
from privaudit.protocols.disue import DisUE, DisUEConfig, kinds
from privaudit.recording import read_recording
from privaudit.transcript import MemoryRecorder


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"similarity": "ckks"}, "Input should be"),
        ({"quantisation_bits": 12}, "Input should be"),
        ({"k1": 100_000}, "less than or equal to 4096"),
        ({"participation": 0.0}, "greater than 0"),
        ({"participation": 1.5}, "less than or equal to 1"),
        ({"clip_norm": float("nan")}, "finite"),
        ({"distillation_batch_size": 1}, "greater than or equal to 2"),
        ({"no_such": 1}, "Extra inputs"),
        ({"clustering": "ifca"}, "set similarity = 'plain'"),
        ({"similarity": "plain", "aggregation": "secagg"}, "'secagg' hides"),
        ({"similarity": "plain", "clustering": "cfl", "aggregation": "secagg"}, "'secagg' hides"),
        ({"similarity": "plain", "clustering": "ifca", "start": "cluster"}, "must be 'global'"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DisUEConfig(**parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k1": 430}, r"k1..k4 = 430, 200, 128, 128 does not decode.* range"),
        ({"k2": 150}, r"does not decode.* noise"),
        ({"similarity": "shared_key", "k3": 190}, r"does not decode.* noise"),
        ({"similarity": "pairwise", "k4": 190}, r"does not decode.* noise"),
        ({"similarity": "secret_shares", "quantisation_bits": 24, "model": "cnn"}, "n Q"),
    ],
)
def test_sizes_that_cannot_decode_are_refused_before_the_first_message(
    parameters: Any, message: str
) -> None:
    data = federation()
    if parameters.get("model") == "cnn":
        wide = np.zeros((1, 1, 28, 28), dtype=np.float32)
        records = LabelledImages(wide, np.zeros(1, dtype=np.int64))
        data = replace(
            data,
            clients=tuple(replace(c, train=records, test=records) for c in data.clients),
            auxiliary=records,
        )
    recorder = MemoryRecorder()
    with pytest.raises(ConfigurationError, match=message):
        DisUE(DisUEConfig(**{**DEFAULTS, **parameters})).run(
            data, rng=np.random.default_rng(0), recorder=recorder
        )
    assert not recorder.transcript().messages


@pytest.mark.parametrize("variant", ["plain", "pairwise", "relay", "shared_key", "secret_shares"])
@pytest.mark.parametrize(("share", "clients"), [(0.01, 1), (0.3, 2)])
def test_one_or_two_clients_in_a_round_are_one_cluster_and_it_is_told(
    variant: str, share: float, clients: int
) -> None:
    run = execute(federation(), participation=share, **VARIANTS[variant])
    assert run.outcome.status == "completed"
    assert len(run.outcome.warnings) == 2
    for t, warning in enumerate(run.outcome.warnings, start=1):
        assert warning.startswith(f"round {t}: one group without clustering: {clients} client(s)")
        assert run.server("assignment", t).tolist() == [0] * clients
    assert DisUE(run.config).events(run.transcript)


@pytest.mark.parametrize("variant", ["plain", "relay"])
def test_a_client_that_did_not_move_has_no_similarity(variant: str) -> None:
    with pytest.raises(InvalidDataError, match=r"no cosine|cosine of vector 0 is not defined"):
        execute(federation(), similarity_on="delta", learning_rate=1e-30, **VARIANTS[variant])


def with_first_pixel(value: float) -> FederatedData:
    """The federation with one pixel of every user changed."""

    def changed(client: ClientData) -> ClientData:
        images = client.train.images.copy()
        images[0, 0, 0, 0] = value
        return replace(client, train=LabelledImages(images, client.train.labels))

    data = federation()
    return replace(data, clients=tuple(changed(c) for c in data.clients))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_an_error_in_round_1(value: float) -> None:
    with pytest.raises(InvalidDataError, match=r"model of user-\d+ in round 1 is not finite"):
        execute(with_first_pixel(value))


def test_a_run_that_diverges_says_so() -> None:
    run = execute(
        federation(),
        rounds=5,
        learning_rate=1e18,
        update="gradient",
        clip_norm=None,
        distillation="none",
        similarity="plain",
    )
    assert run.outcome.status == "diverged"
    assert 1 <= run.outcome.rounds < 5
    assert "diverged in round" in run.outcome.reason
    late = execute(federation(), student_learning_rate=1e30, clip_norm=None, similarity="plain")
    assert late.outcome.status == "diverged"
    assert "after distillation" in late.outcome.reason
    assert late.outcome.rounds == 0


def test_equal_and_recorded_group_weights_and_kl_directions_differ() -> None:
    def final(**parameters: Any) -> np.ndarray:
        run = execute(federation(), rounds=1, similarity="plain", **parameters)
        return run.server("global-model", 1)

    default = final()
    for other in (
        {"group_weights": "equal"},
        {"kl": "teacher_student"},
        {"distillation": "fedftg_code"},
        {"distillation": "none"},
        {"generated_images": "unit"},
    ):
        assert (final(**other) != default).any(), other


def releases(variant: str) -> dict[tuple[int, str], list[Any]]:
    run = run_of(variant)
    found: dict[tuple[int, str], list[Any]] = {}
    for event in DisUE(run.config).events(run.transcript):
        assert isinstance(event.mechanism, UnprotectedRelease)
        found.setdefault((event.round, event.mechanism.what), []).append(event)
    return found


MODEL = "the trained model"
COUNTS = "number of records of each class"
COSINES = "cosines between clients"
BROKEN = "the quantised vector: PCSC ciphertexts are no protection"
ANSWER = "inner product with the initiator's vector, and the responder's norm"
GRAM = "inner products of quantised vectors"
SUM = "the sum of the trained models of a cluster"
LEDGER: dict[str, set[str]] = {
    "plain": {MODEL, COUNTS},
    "pairwise": {MODEL, COUNTS, COSINES, BROKEN, ANSWER},
    "relay": {MODEL, COUNTS, COSINES, BROKEN, ANSWER},
    "shared_key": {MODEL, COUNTS, COSINES, BROKEN, GRAM},
    "secret_shares": {MODEL, COUNTS, GRAM},
    "secagg": {SUM, COUNTS, COSINES, BROKEN, ANSWER},
    "ifca": {MODEL, COUNTS, "the cluster model of least loss"},
    "cfl": {MODEL, COUNTS},
    "cfl-gp": {MODEL, COUNTS, "coordinates of the gradient"},
    "pacfl": {MODEL, COUNTS, "singular vectors of the raw images, by class"},
}


@pytest.mark.parametrize("variant", LEDGER)
def test_the_ledger_names_every_release_and_bounds_none(variant: str) -> None:
    found = {what for t, what in releases(variant) if t == 1}
    assert found - {MODEL} == LEDGER[variant] - {MODEL}
    # Under secure aggregation the model of a cluster of one is released as well.
    assert variant == "secagg" or MODEL in found


def test_the_ledger_tells_subjects_observers_and_sizes() -> None:
    run, found = run_of("relay"), releases("relay")
    clients, d = run.clients(1), run.dimension
    (model,), (cosines,), (cipher,), (answer,) = (
        found[1, what] for what in (MODEL, COSINES, BROKEN, ANSWER)
    )
    assert (set(model.subjects), model.observers) == (set(clients), (SERVER,))
    assert model.mechanism.dimension == cipher.mechanism.dimension == d
    assert cosines.mechanism.dimension == CLIENTS * (CLIENTS - 1) // 2
    assert set(cipher.subjects) == set(clients[:-1])
    assert set(cipher.observers) == {SERVER, *clients[1:]}
    assert set(answer.subjects) == set(clients[1:])
    assert set(answer.observers) == {SERVER, *clients[:-1]}
    (pairwise,) = releases("pairwise")[1, BROKEN]
    assert SERVER not in pairwise.observers
    (shared,) = releases("shared_key")[1, BROKEN]
    assert (set(shared.subjects), shared.observers) == (set(clients), (SERVER,))
    (shares,) = releases("secret_shares")[1, GRAM]
    assert shares.observers == (SERVER,)


def test_the_sum_of_each_cluster_is_one_release_of_its_members() -> None:
    run, found = run_of("secagg"), releases("secagg")
    for t in (1, 2):
        large = {frozenset(g) for g in run.groups(t) if len(g) > 1}
        alone = {g[0] for g in run.groups(t) if len(g) == 1}
        assert {frozenset(e.subjects) for e in found.get((t, SUM), [])} == large
        assert {s for e in found.get((t, MODEL), []) for s in e.subjects} == alone


TINY = """
[parameters]
rounds = 2
model = "mlp"
local_epochs = 1
generator_width = 2
distillation_iterations = 1

[federation]
users = 6
partition = "dirichlet"
records_per_user = 20
auxiliary_records = 20
"""


def test_a_run_is_recorded_and_shown_and_its_bytes_follow_from_the_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*arguments: str) -> Ended:
        return called(*arguments, cwd=tmp_path, capsys=capsys, monkeypatch=monkeypatch)

    (tmp_path / "tiny.toml").write_text(TINY)
    # Once as the installed script, once in this process.
    arguments = ("simulate", "disue", "--config", "tiny.toml", "-o")
    ended = privaudit(*arguments, "a", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert call(*arguments, "b").code == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    shown = call("views", "a/run", "--coalition", SERVER, "--json")
    assert shown.code == 0, shown.err
    (view,) = json.loads(shown.out)["views"]
    assert {row["kind"] for row in view["messages"]} == {
        kinds.GLOBAL_MODEL,
        kinds.PARAMETERS,
        kinds.CLASS_COUNTS,
        kinds.SIMILARITY_CHALLENGE,
        kinds.SIMILARITY_RESPONSE,
        kinds.SIMILARITY_VALUES,
    }
    transcript = read_recording(tmp_path / "a" / "run").transcript
    assert transcript.secrets[SERVER]["round-2/similarities"].shape == (3, 3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("similarty=relay", "Did you mean 'similarity"),
        ("k1=430", "does not decode"),
        ("clustering=pacfl", "set similarity = 'plain'"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    setting: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = called(
        "simulate",
        "disue",
        "-p",
        setting,
        "-o",
        "out",
        cwd=tmp_path,
        capsys=capsys,
        monkeypatch=monkeypatch,
    )
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()
