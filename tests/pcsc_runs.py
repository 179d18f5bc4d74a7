"""Challenges of PCSC and small recorded exchanges, for the tests of its cryptanalysis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from privaudit.protocols.disue import kinds
from privaudit.secure_computation import pcsc
from privaudit.secure_computation.integers import encode, encode_one
from privaudit.transcript import MemoryRecorder, Party, Transcript, Truth

#: The challenge of the specification's test vector (k1 = 160, k2 = 60).
PUBLISHED_MODULUS = 730750818665451459101842416358141509827966271787
PUBLISHED_SCALE = 576460752303423619
PUBLISHED_SECRET = 103929005321308650608990281194157653061304342135
PUBLISHED_VECTOR = [3, 0, -7]
PUBLISHED_CIPHERTEXTS = encode(
    [
        526140585849900950131289397815387361387053963732,
        250079166166741094355630829235725500866495026098,
        42221152885317973603732862655340405680254013212,
        704768565226988009059263348823043005525043856767,
        45468939453571056567512532915466815530390219575,
    ],
    width=20,
)


@dataclass(frozen=True)
class Case:
    """A vector, its key, and the challenge that was made of it."""

    vector: np.ndarray
    keys: pcsc.Keys
    challenge: pcsc.Challenge

    @property
    def public(self) -> tuple[int, int, np.ndarray]:
        return self.challenge.modulus, self.challenge.scale, self.challenge.ciphertexts


def case(
    rng: np.random.Generator,
    *,
    n: int = 100,
    bits: int = 16,
    sizes: tuple[int, int, int, int] = (512, 200, 128, 128),
    zeros: bool = True,
) -> Case:
    parameters = pcsc.Parameters(*sizes)
    keys = pcsc.generate(parameters, source=rng)
    vector = random_vector(rng, n=n, bits=bits, zeros=zeros)
    challenge = pcsc.encrypt(vector, keys, parameters=parameters, source=rng)
    return Case(vector, keys, challenge)


def random_vector(
    rng: np.random.Generator, *, n: int, bits: int = 16, zeros: bool = True
) -> np.ndarray:
    largest = 2 ** (bits - 1) - 1
    vector = rng.integers(-largest, largest + 1, n)
    if not zeros:
        vector[vector == 0] = 1
    return vector


def respond(case: Case, vector: np.ndarray, rng: np.random.Generator) -> pcsc.Response:
    return pcsc.respond(
        case.challenge, vector, parameters=pcsc.Parameters(), source=rng, validate=False
    )


@dataclass(frozen=True)
class Exchange:
    transcript: Transcript
    truth: Truth


@cache
def exchange(variant: str, *, n: int = 60, clients: int = 4, rounds: int = 2) -> Exchange:
    """Record what the parties of DisUE send for their similarities, with models that drift."""
    rng = np.random.default_rng(11)
    recorder = MemoryRecorder()
    users = [f"user-{i + 1}" for i in range(clients)]
    recorder.declare([Party(kinds.SERVER, "server"), *(Party(u, "user") for u in users)])
    recorder.publish("configuration", {"similarity_on": "params"})
    model = rng.normal(size=n).astype(np.float32)
    for t in range(1, rounds + 1):
        for user in users:
            recorder.send(
                kind=kinds.GLOBAL_MODEL,
                sender=kinds.SERVER,
                receiver=user,
                round=t,
                arrays={"parameters": model},
            )
        trained = [model + rng.normal(scale=0.2, size=n).astype(np.float32) for _ in users]
        _compare(recorder, variant, users, trained, t, rng)
        model = np.mean(trained, axis=0).astype(np.float32)
    return Exchange(recorder.transcript(), recorder.truth())


def _compare(recorder, variant, users, trained, t, rng) -> None:
    parameters = pcsc.Parameters()
    shared = pcsc.generate(parameters, source=rng)
    vectors = []
    for user, model in zip(users, trained, strict=True):
        vector = np.rint(model * (32_767 / np.abs(model).max())).astype(np.int64)
        recorder.note_truth(f"{user}/round-{t}", vector=model, quantised=vector)
        vectors.append(vector)
    for i, u in enumerate(users):
        keys = shared if variant == "shared_key" else pcsc.generate(parameters, source=rng)
        challenge = pcsc.encrypt(vectors[i], keys, parameters=parameters, source=rng)
        arrays = challenge_arrays(challenge)
        send = {"round": t, "arrays": arrays}
        if variant == "shared_key":
            recorder.send(
                kind=kinds.SHARED_KEY_CIPHERTEXT,
                sender=u,
                receiver=kinds.SERVER,
                meta={"initiator": u},
                **send,
            )
            continue
        if variant == "relay" and i + 1 < len(users):
            recorder.send(
                kind=kinds.SIMILARITY_CHALLENGE,
                sender=u,
                receiver=kinds.SERVER,
                meta={"initiator": u},
                **send,
            )
        for j in range(i + 1, len(users)):
            pair = {"initiator": u, "responder": users[j]}
            relayed = variant == "relay"
            recorder.send(
                kind=kinds.SIMILARITY_CHALLENGE,
                sender=kinds.SERVER if relayed else u,
                receiver=users[j],
                meta=pair,
                **send,
            )
            answer = pcsc.respond(challenge, vectors[j], parameters=parameters, source=rng)
            route = [users[j], kinds.SERVER, u] if relayed else [users[j], u]
            for sender, receiver in pairwise(route):
                send_response(recorder, answer, pair, t, sender=sender, receiver=receiver)


def challenge_arrays(challenge: pcsc.Challenge) -> dict[str, np.ndarray]:
    width = challenge.ciphertexts.shape[1]
    return {
        "modulus": encode_one(challenge.modulus, width=width),
        "scale": encode_one(challenge.scale, width=width),
        "ciphertexts": challenge.ciphertexts,
    }


def send_response(recorder, answer, pair, t, *, sender, receiver) -> None:
    width = max(64, (answer.value.bit_length() + 7) // 8)
    recorder.send(
        kind=kinds.SIMILARITY_RESPONSE,
        sender=sender,
        receiver=receiver,
        round=t,
        arrays={
            "response": encode_one(answer.value, width=width),
            "squared_norm": encode_one(answer.squared_norm, width=8),
        },
        meta=pair,
    )
