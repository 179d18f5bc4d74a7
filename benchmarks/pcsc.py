"""PCSC, the attack that breaks it, and the secure alternatives, side by side in one run.

    python benchmarks/pcsc.py [--json] [--dimension D] [--rounds R] [--seed S]

Two vectors of D real numbers with a known cosine; each scheme computes it, from its own form of
the vectors (quantised to 16 bits; of unit length for CKKS) to the number that its receiver gets.
Every scheme runs in a process of its own, once a round, the schemes in turn, so that what else the
machine does meets all of them; times are medians over the rounds, peak memory the greatest of
them (VmHWM, with the interpreter, the libraries, and both vectors). A small run of the same steps
before the timed one pays for imports and first calls.

The default D is the number of parameters of the CNN that the figures in the documentation are for.
`ckks_ratio` is the time of CKKS with N = 8192 (encryption, product, decryption; keys not counted)
over that of PCSC (encryption, response, decoding), `ckks_bytes_ratio` that of the ciphertexts of
one vector.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privaudit.secure_computation import ckks, masking, pcsc, secret_sharing, shared_key
from privaudit.secure_computation.integers import PURE_PYTHON, backend
from privaudit.secure_computation.quantisation import largest_integer, quantise

DIMENSION, BITS, WARM_UP = 582_026, 16, 1000
PEERS = 14  # of one client in a round of 15

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]
Figures = dict[str, Any]


class Laps:
    """Seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        self.seconds[name] = time.perf_counter() - start
        return result


def vectors(dimension: int, seed: int) -> tuple[Reals, Reals]:
    """Return two normal vectors with a cosine near 0.45."""
    u, noise = np.random.default_rng(seed).normal(size=(2, dimension))
    return u, 0.5 * u + noise


def run_pcsc(u: Reals, v: Reals, rng: np.random.Generator) -> Figures:
    """One initiator, one responder."""
    a, b = quantise(u, bits=BITS).values, quantise(v, bits=BITS).values
    parameters, lap = pcsc.Parameters(), Laps()
    pcsc.check(parameters, dimension=a.size, largest=largest_integer(BITS))
    keys = lap("keys", lambda: pcsc.generate(parameters, source=rng))
    challenge = lap("encrypt", lambda: pcsc.encrypt(a, keys, parameters=parameters, source=rng))
    response = lap("product", lambda: pcsc.respond(challenge, b, parameters=parameters, source=rng))
    product = lap("decode", lambda: pcsc.decode(response, keys))
    return {
        "seconds": lap.seconds,
        "vector_bytes": challenge.nbytes,
        "answer_bytes": keys.width + 8,
        "cosine": pcsc.cosine(product, pcsc.squared_norm(a), response.squared_norm),
        "exact": product == exact_product(a, b),
        "backend": backend(),
    }


def run_shared_key(u: Reals, v: Reals, rng: np.random.Generator) -> Figures:
    """PCSC with one key: the server multiplies, the helper decodes."""
    a, b = quantise(u, bits=BITS).values, quantise(v, bits=BITS).values
    parameters, lap = pcsc.Parameters(), Laps()
    shared_key.check(parameters, dimension=a.size, largest=largest_integer(BITS))
    keys = lap("keys", lambda: pcsc.generate(parameters, source=rng))
    first = lap("encrypt", lambda: pcsc.encrypt(a, keys, parameters=parameters, source=rng))
    second = pcsc.encrypt(b, keys, parameters=parameters, source=rng)
    multiplied = lap(
        "product",
        lambda: shared_key.product(first.ciphertexts, second.ciphertexts, modulus=keys.modulus),
    )
    product = lap("decode", lambda: shared_key.decode_product(multiplied, keys))
    return {
        "seconds": lap.seconds,
        "vector_bytes": first.nbytes,
        "answer_bytes": keys.width,
        "cosine": pcsc.cosine(product, pcsc.squared_norm(a), pcsc.squared_norm(b)),
        "exact": product == exact_product(a, b),
        "backend": backend(),
    }


def run_attack(u: Reals, v: Reals, rng: np.random.Generator) -> Figures:
    """What an observer of one challenge gets from it, without any key."""
    # Here, so that the memory of the other schemes does not count what attacks import.
    from privaudit.attacks.cryptanalysis.ratio import recover_from_pads

    del v
    a = quantise(u, bits=BITS).values
    parameters, lap = pcsc.Parameters(), Laps()
    challenge = pcsc.encrypt(
        a, pcsc.generate(parameters, source=rng), parameters=parameters, source=rng
    )
    found = lap(
        "attack",
        lambda: recover_from_pads(challenge.modulus, challenge.scale, challenge.ciphertexts),
    )
    return {
        "seconds": lap.seconds,
        "exact": np.array_equal(found.values, a),
        "backend": backend(),
    }


def run_ckks(ring_degree: int) -> Callable[[Reals, Reals, np.random.Generator], Figures]:
    """CKKS: a product with a vector in the clear, and with an encrypted one."""

    def run(u: Reals, v: Reals, rng: np.random.Generator) -> Figures:
        del rng  # TenSEAL draws from the operating system
        a, b, lap = u / np.linalg.norm(u), v / np.linalg.norm(v), Laps()
        own = lap("keys", lambda: ckks.generate(ring_degree))
        public = ckks.public(own)
        first = lap("encrypt", lambda: ckks.encrypt(a, public))
        product = lap("product", lambda: ckks.times_plain(first, b))
        cosine = lap("decode", lambda: ckks.decrypt(product, own))
        second = ckks.encrypt(b, public)
        encrypted = lap("product_encrypted", lambda: ckks.times(first, second))
        return {
            "seconds": lap.seconds,
            "vector_bytes": first.nbytes,
            "answer_bytes": product.nbytes,
            "key_bytes": public.public_nbytes,
            "cosine": float(cosine[0]),
            "error_encrypted": float(ckks.decrypt(encrypted, own)[0] - a @ b),
            "ciphertexts": len(first.ciphertexts),
        }

    return run


def run_shares(u: Reals, v: Reals, rng: np.random.Generator) -> Figures:
    """Two servers and a dealer; `product` is the work of all three."""
    a, b = quantise(u, bits=BITS).values, quantise(v, bits=BITS).values
    lap = Laps()
    secret_sharing.check(dimension=a.size, largest=largest_integer(BITS))
    of_a = lap("encrypt", lambda: secret_sharing.share(a, source=rng))
    of_b = secret_sharing.share(b, source=rng)
    triples = lap("deal", lambda: secret_sharing.deal_triple(a.size, source=rng))

    def product() -> tuple[list[secret_sharing.Opening], list[int]]:
        opened = [
            secret_sharing.open_differences(*shares)
            for shares in zip(of_a, of_b, triples, strict=True)
        ]
        return opened, [
            secret_sharing.product_share(
                j, own=opened[j], received=opened[1 - j], triple=triples[j]
            )
            for j in (0, 1)
        ]

    opened, results = lap("product", product)
    value = lap("decode", lambda: secret_sharing.reconstruct(*results))
    return {
        "seconds": lap.seconds,
        "vector_bytes": sum(share.nbytes for share in of_a),
        "dealer_bytes": sum(triple.nbytes for triple in triples),
        "opening_bytes": sum(opening.nbytes for opening in opened),
        "answer_bytes": 16,
        "cosine": pcsc.cosine(value, pcsc.squared_norm(a), pcsc.squared_norm(b)),
        "exact": value == exact_product(a, b),
    }


def run_masking(u: Reals, v: Reals, rng: np.random.Generator) -> Figures:
    """Pairwise masks of a client with 14 peers; the sum is checked with two clients."""
    a, b = quantise(u, bits=BITS).values, quantise(v, bits=BITS).values
    lap = Laps()
    ids = [f"client-{i:02}" for i in range(PEERS + 1)]
    many = masking.pairwise_seeds(ids, source=rng)
    masked = lap("encrypt", lambda: masking.mask(a, client=ids[0], seeds=many[ids[0]]))
    two = masking.pairwise_seeds(ids[:2], source=rng)
    sent = {
        client: masking.mask(vector, client=client, seeds=two[client])
        for client, vector in zip(ids[:2], (a, b), strict=True)
    }
    total = lap("aggregate", lambda: masking.aggregate(sent, clients=ids[:2]))
    return {
        "seconds": lap.seconds,
        "vector_bytes": masked.nbytes,
        "peers": PEERS,
        "exact": np.array_equal(total, a.astype(np.int64) + b),
    }


SCHEMES: dict[str, tuple[str, Callable[[Reals, Reals, np.random.Generator], Figures]]] = {
    "pcsc": ("PCSC, gmpy2 where installed", run_pcsc),
    "pcsc_python": ("PCSC, pure Python", run_pcsc),
    "shared_key": ("PCSC, one key for all", run_shared_key),
    "attack": ("attack on one challenge", run_attack),
    "attack_python": ("attack, pure Python", run_attack),
    "ckks_8192": ("CKKS, N = 8192", run_ckks(8192)),
    "ckks_16384": ("CKKS, N = 16384", run_ckks(16384)),
    "shares": ("two-server shares", run_shares),
    "masking": (f"pairwise masks, {PEERS} peers", run_masking),
}


def exact_product(a: Integers, b: Integers) -> int:
    """Return a . b of 16-bit vectors, which 64 bits hold."""
    return int(a.astype(np.int64) @ b.astype(np.int64))


def peak_memory_mb() -> float:
    """Return the greatest resident size of this process in MB (10^6 bytes).

    VmHWM where there is one: ru_maxrss is inherited from the parent when a process is started.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def child(scheme: str, dimension: int, seed: int) -> Figures:
    """Run one scheme in this process."""
    _, run = SCHEMES[scheme]
    rng = np.random.default_rng(seed)
    run(*vectors(min(dimension, WARM_UP), seed), rng)
    u, v = vectors(dimension, seed)
    figures = run(u, v, rng)
    if "cosine" in figures:
        truth = float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
        figures["error"] = abs(figures["cosine"] - truth)
    figures["peak_rss_mb"] = peak_memory_mb()
    return figures


def started(scheme: str, dimension: int, seed: int) -> Figures:
    """Run one scheme in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment[PURE_PYTHON] = "1" if scheme.endswith("_python") else "0"
    command = [sys.executable, __file__, "--scheme", scheme, "--dimension", str(dimension)]
    done = subprocess.run(
        [*command, "--seed", str(seed)], env=environment, stdout=subprocess.PIPE, check=True
    )
    result: Figures = json.loads(done.stdout.splitlines()[-1])
    return result


def summary(rounds: list[Figures]) -> Figures:
    """Return the last round's figures with median times, greatest memory, and the worst error."""
    result = dict(rounds[-1])
    result["seconds"] = {
        step: statistics.median(r["seconds"][step] for r in rounds)
        for step in rounds[-1]["seconds"]
    }
    result["peak_rss_mb"] = max(r["peak_rss_mb"] for r in rounds)
    for name, worst in (("error", max), ("exact", min)):
        if name in result:
            result[name] = worst(r[name] for r in rounds)
    return result


def compare(dimension: int, rounds: int, seed: int) -> Figures:
    """Run all schemes in turn, several times."""
    measured: dict[str, list[Figures]] = {scheme: [] for scheme in SCHEMES}
    for number in range(rounds):
        for scheme, figures in measured.items():
            figures.append(started(scheme, dimension, seed + number))
    schemes = {scheme: summary(figures) for scheme, figures in measured.items()}
    own, other = schemes["pcsc"], schemes["ckks_8192"]
    steps = ("encrypt", "product", "decode")
    return {
        "dimension": dimension,
        "encrypt_s": own["seconds"]["encrypt"],
        "respond_s": own["seconds"]["product"],
        "decode_s": own["seconds"]["decode"],
        "attack_s": schemes["attack"]["seconds"]["attack"],
        "attack_exact": schemes["attack"]["exact"] and schemes["attack_python"]["exact"],
        "ckks_ratio": sum(other["seconds"][s] for s in steps)
        / sum(own["seconds"][s] for s in steps),
        "ckks_bytes_ratio": other["vector_bytes"] / own["vector_bytes"],
        "peak_rss_mb": max(own["peak_rss_mb"], schemes["attack"]["peak_rss_mb"]),
        "python_encrypt_s": schemes["pcsc_python"]["seconds"]["encrypt"],
        "backend": own["backend"],
        "rounds": rounds,
        "schemes": schemes,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def show(result: Figures, stream: Any) -> None:
    """Print the figures for a reader."""

    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    print(
        f"d = {result['dimension']:,}, medians of {result['rounds']} rounds;"
        f" big integers: {result['backend']}",
        file=stream,
    )
    head = ("scheme", "protect s", "product s", "decode ms", "vector MB", "error", "RSS MB")
    print("{:<30}{:>10}{:>11}{:>11}{:>11}{:>10}{:>8}".format(*head), file=stream)
    for scheme, (label, _) in SCHEMES.items():
        row, seconds = result["schemes"][scheme], result["schemes"][scheme]["seconds"]
        decode = seconds.get("decode")
        size = row.get("vector_bytes")
        cells = (
            f"{cell(seconds.get('encrypt', seconds.get('attack')), '.3f'):>10}",
            f"{cell(seconds.get('product'), '.3f'):>11}",
            f"{cell(None if decode is None else decode * 1e3, '.3f'):>11}",
            f"{cell(None if size is None else size / 1e6, '.1f'):>11}",
            f"{cell(row.get('error'), '.0e'):>10}",
            f"{row['peak_rss_mb']:>8.0f}",
        )
        print(f"{label:<30}{''.join(cells)}", file=stream)
    print(
        f"attack exact: {result['attack_exact']}; CKKS / PCSC: time {result['ckks_ratio']:.2f},"
        f" bytes {result['ckks_bytes_ratio']:.2f}",
        file=stream,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    parser.add_argument("--dimension", type=int, default=DIMENSION, help="default 582026")
    parser.add_argument("--rounds", type=int, default=3, help="times each scheme runs (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of vectors, keys, noise (default 0)")
    parser.add_argument("--scheme", choices=list(SCHEMES), help="run one here, print its figures")
    arguments = parser.parse_args()
    if arguments.dimension < 1 or arguments.rounds < 1:
        parser.error("--dimension and --rounds are at least 1")
    if arguments.scheme:
        print(json.dumps(child(arguments.scheme, arguments.dimension, arguments.seed)))
        return 0
    result = compare(arguments.dimension, arguments.rounds, arguments.seed)
    show(result, sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        print(json.dumps(result))
    exact = all(row.get("exact", True) for row in result["schemes"].values())
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
