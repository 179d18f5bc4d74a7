"""Small runs of vertical clustering on the digits and on breast cancer, for tests of attacks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from privaudit.attacks.base import Attack, Guesses, Knowledge
from privaudit.attacks.control import deranged_rows, leaked
from privaudit.attacks.indices import OUTSIDER, PRESETS, Grant, grant
from privaudit.attacks.indices._observations import READS
from privaudit.datasets.vertical import AuxiliaryRows, Column, VerticalData, VerticalParty
from privaudit.protocols.pq_mds import PQMDS, PQMDSConfig, kinds
from privaudit.scoring.records import person_truth
from privaudit.transcript import MemoryRecorder, Transcript, Truth, View


@dataclass(frozen=True)
class Run:
    data: VerticalData
    transcript: Transcript
    truth: Truth

    def view(self, preset: str, *, seed: int = 0) -> View:
        """Return the view of a threat model; the outsider's run leaks first."""
        model = PRESETS[preset]
        transcript = self.transcript
        if model.principal == "outsider":
            transcript = leaked(
                transcript,
                kinds=READS,
                ids=kinds.ROWS,
                outsider=OUTSIDER,
                rng=np.random.default_rng(seed),
            )
        return transcript.view(model.coalition(transcript))

    def grant(self, preset: str, *, seed: int = 0, **options: Any) -> Grant:
        return grant(
            PRESETS[preset].capabilities,
            self.data,
            self.transcript,
            rng=np.random.default_rng([seed, 1]),
            **options,
        )

    def control(self, view: View, attack: Attack, *, separately: bool = False) -> View:
        return deranged_rows(
            view,
            kinds=attack.reads,
            rows=len(self.data),
            rng=np.random.default_rng(9),
            separately=separately,
        )


def table_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer, load_digits

    if name == "digits":
        digits = load_digits()
        return digits.data / 16.0, digits.target
    cancer = load_breast_cancer()
    table = cancer.data
    return (table - table.mean(axis=0)) / table.std(axis=0), cancer.target


def run_on(
    table: np.ndarray,
    labels: np.ndarray,
    *,
    widths: tuple[int, ...],
    auxiliary: np.ndarray | None = None,
    seed: int = 0,
    **config: Any,
) -> Run:
    """Run the protocol once; row ids are drawn at random, so that none can be taken for a place."""
    rng = np.random.default_rng([seed, 2])
    ids = rng.permutation(10 * len(table))[: len(table)].astype(np.int64)
    ends = np.cumsum(widths)
    parties = tuple(
        VerticalParty(
            f"party-{i + 1}",
            ids,
            table[:, end - width : end].astype(np.float32),
            tuple(Column(f"column-{c}") for c in range(end - width, end)),
            np.arange(end - width, end),
        )
        for i, (end, width) in enumerate(zip(ends, widths, strict=True))
    )
    rest = np.zeros((0, table.shape[1])) if auxiliary is None else auxiliary
    data = VerticalData(
        "test",
        parties,
        labels.astype(np.int64),
        int(labels.max()) + 1,
        AuxiliaryRows(rest.astype(np.float32)),
    )
    recorder = MemoryRecorder()
    config = {"reference": False, "initialisations": 1} | config
    PQMDS(PQMDSConfig(**config)).run(data, rng=np.random.default_rng(seed), recorder=recorder)
    return Run(data, recorder.transcript(), recorder.truth())


@cache
def digits_run(
    subspaces: int = 8,
    codewords: int = 16,
    dimensions: int = 1,
    *,
    seed: int = 0,
    rows: int = 1797,
    total: int = 1797,
    classes: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    **config: Any,
) -> Run:
    """Run on the digits' upper and lower halves; rows left over, up to ``total``, are auxiliary.

    ``classes`` gives the classes of the run's rows and of the auxiliary ones.
    """
    table, labels = table_of("digits")
    order = np.random.default_rng([seed, 3]).permutation(len(table))
    inside, outside = order[:rows], order[rows:total]
    if classes is not None:
        inside = inside[np.isin(labels[inside], classes[0])]
        outside = outside[np.isin(labels[outside], classes[1])]
    return run_on(
        table[inside],
        labels[inside],
        widths=(32, 32),
        auxiliary=table[outside],
        seed=seed,
        subspaces=subspaces,
        codewords=codewords,
        embedding_dimensions=dimensions,
        **config,
    )


@cache
def breast_run(*, seed: int = 0, columns: tuple[int, ...] | None = None, **config: Any) -> Run:
    """Run on breast cancer, 10 columns and 20; ``columns`` puts others first."""
    table, labels = table_of("breast")
    first = tuple(range(10)) if columns is None else columns
    order = [*first, *(c for c in range(30) if c not in first)]
    config = {"subspaces": (3, 6), "codewords": 16, "clusters": 2} | config
    widths = (len(first), 30 - len(first))
    return run_on(table[:, order], labels, widths=widths, seed=seed, **config)


def attacked(
    run: Run, attack: Attack, preset: str, *, seed: int = 0, method: str = "run", **options: Any
) -> tuple[Guesses, Truth]:
    """Run an attack under a threat model; return guesses and the truth of persons and rows."""
    view, given = run.view(preset, seed=seed), run.grant(preset, seed=seed, **options)
    guesses = getattr(attack, method)(
        view, knowledge=given.knowledge, rng=np.random.default_rng([seed, 4])
    )
    return guesses, truth_of(run, given)


def truth_of(run: Run, given: Grant) -> Truth:
    return Truth({**run.truth.targets, **person_truth(dict(given.persons)).targets})


def mean(scores: Any) -> float:
    return float(np.mean(list(scores.per_target.values())))


def without(knowledge: Knowledge, **none: Any) -> Knowledge:
    return replace(knowledge, vertical=replace(knowledge.vertical, **none))
