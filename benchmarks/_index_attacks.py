"""The attacks on indices at 60,000 rows: time, peak memory and figures, in a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from privaudit.attacks.base import Attack, Guesses
from privaudit.attacks.control import deranged_rows, leaked
from privaudit.attacks.indices import (
    OUTSIDER,
    PRESETS,
    AuxiliaryAlignment,
    ClusterAttribute,
    CodeRecovery,
    CrossPartyInference,
    FrequencyMatching,
    IndexMembership,
    KnownSampleReconstruction,
    RecordLinking,
    SinglingOut,
    grant,
)
from privaudit.datasets import load_dataset
from privaudit.datasets.vertical import AuxiliaryRows, Column, VerticalData, VerticalParty
from privaudit.errors import DatasetNotFoundError
from privaudit.leakage import leakage_by_party
from privaudit.protocols.pq_mds import PQMDS, PQMDSConfig, kinds
from privaudit.scoring import Estimate, Scores, estimate
from privaudit.scoring.membership import membership_auc
from privaudit.scoring.records import (
    attribute_accuracy,
    code_bijection,
    linked_within,
    normalised_error,
    person_truth,
    singled_out,
)
from privaudit.transcript import MemoryRecorder, Transcript, Truth

__all__ = ["index_attacks", "show_index_attacks"]

Score = Callable[[Guesses, Truth], Scores | Estimate]

KNOWN, PERSONS, SUBSPACES, CODEWORDS = 1000, 400, 14, 64

#: Attack, threat model, and score.
SUITE: tuple[tuple[Attack, str, Score], ...] = (
    (CodeRecovery(), "hbc_server", code_bijection),
    (FrequencyMatching(), "server_aux", normalised_error),
    (KnownSampleReconstruction(), "server_known", normalised_error),
    (AuxiliaryAlignment(), "server_aux", normalised_error),
    (RecordLinking(), "server_known", lambda g, t: linked_within(g, t, ranks=1)),
    (RecordLinking("auxiliary-data"), "server_aux", lambda g, t: linked_within(g, t, ranks=1)),
    (SinglingOut(), "server_known", singled_out),
    (
        CrossPartyInference(),
        "server_plus_A",
        lambda g, t: normalised_error(g, t, parties=("party-2",)),
    ),
    (IndexMembership(), "outsider_known", membership_auc),
    (IndexMembership("auxiliary-data"), "outsider_aux", membership_auc),
    (ClusterAttribute(), "hbc_party", attribute_accuracy),
)


def index_attacks(data_root: Path | None, _: int) -> dict[str, Any]:
    """Run the suite once in a fresh process, so that the peak of memory is its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure, data_root).result()


def _halves(data_root: Path | None) -> VerticalData:
    try:
        data = load_dataset("mnist", data_root=data_root)
        name, rows = "MNIST", data.train.images.reshape(len(data.train), -1)
        labels, rest = data.train.labels, data.test.images.reshape(len(data.test), -1)
    except DatasetNotFoundError:
        rng = np.random.default_rng(0)
        labels = rng.integers(10, size=70_000)
        factors = rng.normal(size=(10, 32))[labels] + rng.normal(size=(70_000, 32))
        drawn = (factors @ rng.normal(size=(32, 784))).astype(np.float32)
        name, rows, rest, labels = "synthetic", drawn[:60_000], drawn[60_000:], labels[:60_000]
    ids = np.random.default_rng(1).permutation(len(rows)).astype(np.int64)
    half = rows.shape[1] // 2
    parties = tuple(
        VerticalParty(
            f"party-{i + 1}",
            ids,
            np.ascontiguousarray(rows[:, i * half : (i + 1) * half]),
            tuple(Column(f"pixel-{c}") for c in range(i * half, (i + 1) * half)),
            np.arange(i * half, (i + 1) * half),
        )
        for i in range(2)
    )
    return VerticalData(name, parties, labels.astype(np.int64), 10, AuxiliaryRows(rest))


def _run(data: VerticalData) -> tuple[Transcript, Truth]:
    recorder = MemoryRecorder()
    config = PQMDSConfig(
        subspaces=SUBSPACES, codewords=CODEWORDS, initialisations=1, reference=False
    )
    PQMDS(config).run(data, rng=np.random.default_rng(0), recorder=recorder)
    transcript = leaked(
        recorder.transcript(),
        kinds=(kinds.INDICES,),
        ids=kinds.ROWS,
        outsider=OUTSIDER,
        rng=np.random.default_rng(2),
    )
    return transcript, recorder.truth()


def _measure(data_root: Path | None) -> dict[str, Any]:
    data = _halves(data_root)
    transcript, truth = _run(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows: list[dict[str, Any]] = []
    for attack, preset, score in SUITE:
        rows.append(_one(attack, preset, score, data, transcript, truth))
    cpu = time.process_time()
    codes = {p.party: truth.get(p.party, "codes/round-1") for p in data.parties}
    jointly = leakage_by_party(codes)["jointly"]
    leakage = time.process_time() - cpu
    return {
        "rows": data.dataset,
        "n": len(data),
        "attacks": rows,
        "unique_rows": jointly.anonymity.unique,
        "leakage_cpu_s": leakage,
        "cpu_s": sum(r["cpu_s"] for r in rows) + leakage,
        "wall_s": sum(r["wall_s"] for r in rows),
        "memory_before_mib": before,
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _one(
    attack: Attack,
    preset: str,
    score: Score,
    data: VerticalData,
    transcript: Transcript,
    truth: Truth,
) -> dict[str, Any]:
    cpu, wall = time.process_time(), time.perf_counter()
    model = PRESETS[preset]
    given = grant(
        model.capabilities,
        data,
        transcript,
        known=KNOWN,
        persons=PERSONS,
        rng=np.random.default_rng(3),
    )
    known = Truth({**truth.targets, **person_truth(dict(given.persons)).targets})
    view = transcript.view(model.coalition(transcript))
    treated = deranged_rows(
        view,
        kinds=attack.reads,
        rows=len(data),
        rng=np.random.default_rng(4),
        separately=isinstance(attack, IndexMembership),
    )

    def figure(method: str, seen: Any) -> dict[str, float]:
        guesses = getattr(attack, method)(
            seen, knowledge=given.knowledge, rng=np.random.default_rng(5)
        )
        found = score(guesses, known)
        if isinstance(found, Scores):
            found = estimate(found, confidence=0.95)
        return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}

    by = getattr(attack, "by", "")
    result = {
        "attack": attack.name + (f" by {by}" if by else ""),
        "preset": preset,
        "attacked": figure("run", view),
        "baseline": figure("baseline", view),
        "control": figure("run", treated),
    }
    return result | {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
    }


def show_index_attacks(result: dict[str, Any], stream: Any) -> None:
    """Print one line an attack: its figure, baseline and control, and the time of all three."""
    print(
        f"attacks on indices, {result['n']:,} rows ({result['rows']}), two halves, M = "
        f"{SUBSPACES} each, K = {CODEWORDS}, {KNOWN} known rows, {PERSONS} persons; every line is "
        "attack, baseline and control, scored with intervals",
        file=stream,
    )
    for row in result["attacks"]:
        found = row["attacked"]
        print(
            f"  {row['attack']:<44} {row['preset']:<15} {found['value']:.4f} "
            f"[{found['low']:.4f}, {found['high']:.4f}]  baseline {row['baseline']['value']:.4f}  "
            f"control {row['control']['value']:.4f}  cpu {row['cpu_s']:5.1f} s",
            file=stream,
        )
    print(
        f"  rows with a tuple of codes of their own: {result['unique_rows']:.2%}\n"
        f"  all together: cpu {result['cpu_s']:.1f} s, wall {result['wall_s']:.1f} s, peak memory "
        f"{result['peak_memory_mib']:.0f} MiB (of which {result['memory_before_mib']:.0f} MiB were "
        "reached before, by the data and the run)",
        file=stream,
    )
