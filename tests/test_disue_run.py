"""A run of DisUE, message by message, against the table of who sees what."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disue_runs import (
    CLIENTS,
    DEFAULTS,
    ROUNDS,
    SERVER,
    USERS,
    VARIANTS,
    Run,
    execute,
    federation,
    run_of,
)

from privaudit.protocols.disue import DisUE, DisUEConfig, kinds
from privaudit.secure_computation.integers import PURE_PYTHON, backend
from privaudit.testing import check_protocol

HELPER, SECOND, DEALER = kinds.KEY_HELPER, kinds.SECOND_SERVER, kinds.DEALER
PCSC = ("pairwise", "relay", "shared_key")
PAIRS = CLIENTS * (CLIENTS - 1) // 2
BOTH = CLIENTS * (CLIENTS + 1) // 2
Row = tuple[str, str, str]


def seen(run: Run, party: str, t: int) -> Counter[Row]:
    """Count what one party sees in a round: kind, sender and receiver, clients not told apart."""
    roles = dict.fromkeys(run.users, "client") | {party: "self"}
    return Counter(
        (m.kind, roles.get(m.sender, m.sender), roles.get(m.receiver, m.receiver))
        for m in run.view(party).messages
        if m.round == t
    )


def server_rows(variant: str) -> Counter[Row]:
    """The rows of the server in docs/protocols/disue.md, written out for each variant."""
    n, me = CLIENTS, "self"
    rows = Counter(
        {
            ("global-model", me, "client"): n,
            ("parameters", "client", me): n,
            ("class-counts", "client", me): n,
        }
    )
    if variant in ("pairwise", "relay", "fresh"):
        rows["similarity-values", "client", me] = n - 1
    if variant in ("relay", "fresh"):
        rows["similarity-challenge", "client", me] = n - 1 if variant == "relay" else PAIRS
        rows["similarity-challenge", me, "client"] = PAIRS
        rows["similarity-response", "client", me] = PAIRS
        rows["similarity-response", me, "client"] = PAIRS
    if variant == "shared_key":
        rows["shared-key-ciphertext", "client", me] = n
        rows["similarity-products", me, HELPER] = 1
        rows["similarity-values", HELPER, me] = 1
    if variant == "secret_shares":
        rows["vector-share", "client", me] = n
        rows["triple-shares", DEALER, me] = BOTH
        rows["opened-differences", me, SECOND] = BOTH
        rows["opened-differences", SECOND, me] = BOTH
        rows["inner-product-shares", SECOND, me] = 1
    if variant == "ifca":
        del rows["global-model", me, "client"]
        rows["cluster-models", me, "client"] = n
        rows["cluster-choice", "client", me] = n
    if variant == "cfl-gp":
        rows["gradient-profile", "client", me] = n
    if variant == "pacfl":
        rows["subspace", "client", me] = n
    return rows


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "secagg"])
def test_the_server_sees_exactly_the_messages_of_the_table(variant: str) -> None:
    assert seen(run_of(variant), SERVER, 1) == server_rows(variant)


@pytest.mark.parametrize("position", range(CLIENTS))
@pytest.mark.parametrize("variant", ["pairwise", "relay", "shared_key", "secret_shares"])
def test_a_client_sees_its_own_messages_and_those_of_its_pairs(variant: str, position: int) -> None:
    run = run_of(variant)
    before, after = position, CLIENTS - 1 - position
    rows = Counter(
        {
            ("global-model", SERVER, "self"): 1,
            ("parameters", "self", SERVER): 1,
            ("class-counts", "self", SERVER): 1,
        }
    )
    if variant in ("pairwise", "relay"):
        other = "client" if variant == "pairwise" else SERVER
        # Under relay one upload serves all responders.
        sent = after if variant == "pairwise" else min(after, 1)
        rows["similarity-challenge", "self", other] = sent
        rows["similarity-challenge", other, "self"] = before
        rows["similarity-response", "self", other] = before
        rows["similarity-response", other, "self"] = after
        rows["similarity-values", "self", SERVER] = min(after, 1)
    if variant == "shared_key":
        rows["shared-key", HELPER, "self"] = 1
        rows["shared-key-ciphertext", "self", SERVER] = 1
    if variant == "secret_shares":
        rows["vector-share", "self", SERVER] = 1
        rows["vector-share", "self", SECOND] = 1
    assert seen(run, run.clients(1)[position], 1) == +rows


def test_the_other_parties_see_exactly_the_messages_of_the_table() -> None:
    shared, shares = run_of("shared_key"), run_of("secret_shares")
    assert seen(shared, HELPER, 1) == Counter(
        {
            ("shared-key", "self", "client"): USERS,
            ("similarity-products", SERVER, "self"): 1,
            ("similarity-values", "self", SERVER): 1,
        }
    )
    assert ("shared-key", "self", "client") not in seen(shared, HELPER, 2)
    assert seen(shares, SECOND, 1) == Counter(
        {
            ("vector-share", "client", "self"): CLIENTS,
            ("triple-shares", DEALER, "self"): BOTH,
            ("opened-differences", SERVER, "self"): BOTH,
            ("opened-differences", "self", SERVER): BOTH,
            ("inner-product-shares", "self", SERVER): 1,
        }
    )
    assert {kind for kind, _, _ in seen(shares, DEALER, 1)} == {"triple-shares"}
    assert run_of("relay").transcript.ids("helper") == ()


def test_ciphertexts_reach_the_server_under_relay_and_shared_key_but_not_pairwise() -> None:
    def ciphertexts(variant: str) -> set[bytes]:
        run = run_of(variant)
        return {
            m.arrays["ciphertexts"].tobytes()
            for m in run.view(SERVER).messages
            if "ciphertexts" in m.arrays and m.receiver == SERVER
        }

    assert len(ciphertexts("relay")) == ROUNDS * (CLIENTS - 1)
    assert len(ciphertexts("shared_key")) == ROUNDS * CLIENTS
    assert not ciphertexts("pairwise")


def test_every_message_has_the_shape_that_its_kind_documents() -> None:
    d, width = run_of("relay").dimension, 64
    big = ("|u1", (width,))
    shapes: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {
        "global-model": {"parameters": ("<f4", (d,))},
        "cluster-model": {"parameters": ("<f4", (d,))},
        "cluster-models": {"parameters": ("<f4", (2, d))},
        "cluster-choice": {"cluster": ("<i8", ())},
        "parameters": {"parameters": ("<f4", (d,))},
        "masked-parameters": {"values": ("<u8", (d,))},
        "cluster-peers": {},
        "class-counts": {"counts": ("<i8", (10,))},
        "similarity-challenge": {
            "modulus": big,
            "scale": big,
            "ciphertexts": ("|u1", (d + 2, width)),
        },
        "shared-key": {"modulus": big, "scale": big, "secret": big},
        "similarity-response": {"response": big, "squared_norm": ("|u1", (8,))},
        "similarity-products": {"products": ("|u1", (BOTH, width))},
        "vector-share": {"share": ("<u8", (d,))},
        "triple-shares": {"x": ("<u8", (d,)), "y": ("<u8", (d,)), "z": ("<u8", ())},
        "opened-differences": {"first": ("<u8", (d,)), "second": ("<u8", (d,))},
        "inner-product-shares": {"products": ("<u8", (BOTH,))},
        "gradient-profile": {"values": ("<f4", (round(0.01 * d),))},
    }
    shapes["shared-key-ciphertext"] = shapes["similarity-challenge"]
    checked = set()
    for variant in VARIANTS:
        for message in run_of(variant).transcript.messages:
            found = {name: (s.dtype, s.shape) for name, s in message.specs.items()}
            checked.add(message.kind)
            if message.kind == "similarity-values":
                pairs: Any = message.meta["pairs"]
                assert found == {"cosines": ("<f8", (len(pairs),))}
            elif message.kind == "subspace":
                assert found["vectors"][1][0] == 64
            else:
                assert found == shapes[message.kind], message.kind
    values = {v for name, v in vars(kinds).items() if name.isupper() and isinstance(v, str)}
    assert checked == values - {SERVER, HELPER, SECOND, DEALER}


def test_the_documentation_lists_the_same_kinds_as_the_code() -> None:
    text = (Path(__file__).parents[1] / "docs" / "protocols" / "disue.md").read_text()
    table = text.split("## One round, message by message")[1].split("\n## ")[0]
    values = {v for name, v in vars(kinds).items() if name.isupper() and isinstance(v, str)}
    parties = {SERVER, HELPER, SECOND, DEALER}
    assert values - parties <= set(re.findall(r"`([a-z-]+)`", table))
    for option in DisUEConfig.model_fields:
        assert f"`{option}" in text, option


@pytest.mark.parametrize("variant", [*VARIANTS])
def test_what_is_trained_does_not_depend_on_what_is_encrypted(variant: str) -> None:
    run, plain = run_of(variant), run_of("plain")
    assert run.clients(1) == plain.clients(1)
    if variant not in ("ifca", "secagg"):
        np.testing.assert_array_equal(run.true("parameters", 1), plain.true("parameters", 1))
    for t in (1, 2):
        assert len(run.clients(t)) == CLIENTS
        counts = {m.sender: m.arrays["counts"] for m in run.of("class-counts", t)}
        data = dict(zip(run.users, federation().clients, strict=True))
        for client, count in counts.items():
            np.testing.assert_array_equal(
                count, np.bincount(data[client].train.labels, minlength=10)
            )


@pytest.mark.parametrize("variant", ["params", "delta"])
def test_all_variants_give_the_same_similarities_that_are_exact_on_integers(variant: str) -> None:
    runs = {
        name: execute(federation(), similarity=name, similarity_on=variant)
        for name in ("plain", *PCSC, "secret_shares")
    }
    for t in (1, 2):
        vectors = [[int(x) for x in v] for v in runs["relay"].true("quantised", t)]
        gram = [[sum(a * b for a, b in zip(u, v, strict=True)) for v in vectors] for u in vectors]
        expected = np.array(
            [[gram[i][j] / (gram[i][i] * gram[j][j]) ** 0.5 for j in range(5)] for i in range(5)]
        )
        for name in (*PCSC, "secret_shares"):
            matrix = runs[name].server("similarities", t)
            assert matrix == pytest.approx(expected, abs=1e-15)
            np.testing.assert_array_equal(matrix, runs["pairwise"].server("similarities", t))
        exact = runs["plain"].server("similarities", t)
        assert matrix == pytest.approx(exact, abs=1e-5)
        start = runs["plain"].of("global-model", t)[0].arrays["parameters"]
        trained = runs["plain"].true("parameters", t)
        compared = trained - start if variant == "delta" else trained
        np.testing.assert_array_equal(runs["plain"].true("vector", t), compared)


@pytest.mark.parametrize("variant", ["pairwise", "relay", "fresh"])
def test_an_initiator_decodes_inner_products_with_what_it_holds(variant: str) -> None:
    run = run_of(variant)
    clients = run.clients(2)
    for i, u in enumerate(clients[:-1]):
        view = run.view(u)
        vectors = dict(zip(clients, run.true("quantised", 2), strict=True))
        for m in view.select(kinds.SIMILARITY_RESPONSE, round=2, receiver=u):
            v = str(m.meta["responder"])
            assert v in clients[i + 1 :]
            name = f"round-2/pcsc-secret/{v}" if variant == "fresh" else "round-2/pcsc-secret"
            challenges = [
                c
                for c in view.select(kinds.SIMILARITY_CHALLENGE, round=2, sender=u)
                if c.meta.get("responder", v) == v
            ]
            p, alpha = (
                int.from_bytes(challenges[0].arrays[n].tobytes(), "big")
                for n in ("modulus", "scale")
            )
            secret = int.from_bytes(view.secrets[u][name].tobytes(), "big")
            e = int.from_bytes(m.arrays["response"].tobytes(), "big") * pow(secret, -1, p) % p
            e -= p if 2 * e > p else 0
            product = (2 * e + alpha**2) // (2 * alpha**2)
            a, b = (vectors[c].astype(object) for c in (u, v))
            assert product == int(a @ b)
            norm = int.from_bytes(m.arrays["squared_norm"].tobytes(), "big")
            assert norm == int(b @ b)


def test_one_challenge_serves_all_responders_unless_it_is_made_fresh() -> None:
    for variant, distinct in (("relay", CLIENTS - 1), ("fresh", PAIRS)):
        messages = run_of(variant).of("similarity-challenge", 1)
        relayed = [m for m in messages if m.sender == SERVER]
        contents = {m.arrays["ciphertexts"].tobytes() for m in relayed}
        assert len(contents) == distinct
        assert contents == {
            m.arrays["ciphertexts"].tobytes() for m in messages if m.receiver == SERVER
        }


def test_keys_are_held_by_whom_the_variant_gives_them() -> None:
    relay, shared = run_of("relay").transcript, run_of("shared_key").transcript
    assert not any("secret" in name for name in relay.secrets[SERVER])
    assert not any("secret" in name for name in shared.secrets[SERVER])
    last = run_of("relay").clients(1)[-1]
    assert "round-1/pcsc-secret" not in relay.secrets[last]
    held = {shared.secrets[p]["pcsc-secret"].tobytes() for p in (HELPER, *shared.ids("user"))}
    assert len(held) == 1


def test_a_run_without_gmpy2_is_the_same_byte_for_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for pure in ("0", "1"):
        monkeypatch.setenv(PURE_PYTHON, pure)
        runs.append(execute(federation(), rounds=1, participation=0.3, distillation="none"))
    assert backend() == "python"
    for found, expected in zip(*(run.transcript.messages for run in runs), strict=True):
        assert found.kind == expected.kind
        for name, array in expected.arrays.items():
            np.testing.assert_array_equal(found.arrays[name], array)


CONFORMING: tuple[dict[str, Any], ...] = (
    VARIANTS["relay"],
    VARIANTS["shared_key"],
    VARIANTS["secret_shares"],
    {**VARIANTS["ifca"], "aggregation": "secagg"},
    VARIANTS["cfl"],
    VARIANTS["cfl-gp"],
    VARIANTS["pacfl"],
)


@pytest.mark.parametrize("parameters", CONFORMING, ids=str)
def test_the_protocol_conforms(parameters: dict[str, Any]) -> None:
    check_protocol(DisUE(DisUEConfig(**{**DEFAULTS, **parameters})), federation())
