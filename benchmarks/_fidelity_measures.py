"""What the fidelity benchmark measures: partitions by similarity, label overlap, training runs.

Everything that is judged comes from the package: the partition of the data, the protocols, the
distances, the spanning-tree partition. Here is only the bookkeeping around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist, squareform
from sklearn.metrics import adjusted_rand_score

from privaudit.campaigns.simulation import (
    FederationConfig,
    SimulationConfig,
    federate,
    simulate,
)
from privaudit.datasets import load_dataset
from privaudit.datasets.base import ClientData, Dataset, FederatedData, LabelledImages
from privaudit.protocols.base import RunOutcome
from privaudit.protocols.pa_cfl import kinds
from privaudit.protocols.pa_cfl.preclustering import davies_bouldin, partition_by_spanning_tree
from privaudit.similarity import cosine_distances, pairwise_distances
from privaudit.transcript import JSON, Array, Message, NullRecorder, PartyId

Distances = npt.NDArray[np.float64]

#: The similarities of the tables, by the name that they are printed with.
SEQUENCE_METRICS: Mapping[str, Mapping[str, Any]] = {
    "dtw": {"metric": "dtw"},
    "fastdtw": {"metric": "fastdtw", "radius": 1},
    "dtw by index": {"metric": "dtw", "sequence_order": "index"},
    "jaccard": {"metric": "jaccard"},
    "rbo p=0.99": {"metric": "rbo", "persistence": 0.99},
    "rbo p=0.999": {"metric": "rbo", "persistence": 0.999},
}
COSINE = "cosine of updates"
SIMILARITIES: tuple[str, ...] = (*SEQUENCE_METRICS, COSINE)

#: Distances of full updates in Figure 11(a), by SciPy's name.
UPDATE_METRICS: Mapping[str, Literal["cosine", "correlation", "euclidean", "cityblock"]] = {
    "cosine": "cosine",
    "Pearson": "correlation",
    "L2": "euclidean",
    "L1": "cityblock",
}
MAX_NORM = "MaxNorm"
OVERLAP_METRICS: tuple[str, ...] = (*SEQUENCE_METRICS, *UPDATE_METRICS, MAX_NORM)
OVERLAPS: tuple[int, ...] = (0, 20, 40, 60, 80, 100)  # per cent, of U2 ... U7 with U1

#: Section 7.1: "FastDTW is adopted throughout the experiments".
AS_IN_EXPERIMENTS: Mapping[str, Any] = {"similarity": "fastdtw"}
RBO: Mapping[str, Any] = {"similarity": "rbo"}
EPSILONS: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)
NON_PRIVATE = "PA-CFL*"
NON_PRIVATE_RBO = "PA-CFL*, rbo"
NO_FINE = "PA-CFL* without FC"
NO_PRE = "PA-CFL* without PC"
FEDAVG = "FedAvg"
#: Every training run, in the order in which it is printed.
RUN_ORDER: tuple[str, ...] = (
    *(f"PA-CFL, eps0 = {epsilon:g}" for epsilon in EPSILONS),
    "PA-CFL, eps0 = 1, rbo",
    "PA-CFL, eps0 = 10, rbo",
    NON_PRIVATE,
    NON_PRIVATE_RBO,
    NO_FINE,
    NO_PRE,
    FEDAVG,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One data set with its training parameters.

    Attributes
    ----------
    dataset : str
    users, groups : int
    records_per_user : int or None
        As many as the data give if None.
    overlap_records_per_label : int
        Training records of each of a user's five labels in the experiment of Figure 11(a).
    rounds : int
        Of every training run.
    late_round : int
        The second round of which the similarities are compared; training took place before it.
    training : mapping
        Learning rate, batch size and local epochs.
    """

    dataset: str
    records_per_user: int | None
    overlap_records_per_label: int
    rounds: int
    late_round: int
    training: Mapping[str, Any]
    users: int = 20
    groups: int = 5

    def federation(self) -> FederationConfig:
        return FederationConfig(
            dataset=self.dataset,
            users=self.users,
            groups=self.groups,
            records_per_user=self.records_per_user,
        )

    def run(
        self, seed: int, *, protocol: str = "pa-cfl", rounds: int | None = None, **parameters: Any
    ) -> SimulationConfig:
        return SimulationConfig(
            protocol=protocol,
            parameters={"rounds": rounds or self.rounds, **self.training, **parameters},
            federation=self.federation(),
            seed=seed,
        )


class Listener(NullRecorder):
    """Keeps the permutation sequences and the updates of some rounds, and nothing else."""

    def __init__(self, rounds: set[int]) -> None:
        self._rounds = rounds
        self._sequences: dict[int, list[Array]] = {t: [] for t in rounds}
        self._updates: dict[int, list[Array]] = {t: [] for t in rounds}

    def send(
        self,
        *,
        kind: str,
        sender: PartyId,
        receiver: PartyId,
        round: int | None = None,
        arrays: Mapping[str, Array] | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> Message:
        if kind == kinds.PERMUTATION_SEQUENCE and round in self._rounds and arrays is not None:
            self._sequences[round].append(arrays["indices"].copy())
        return super().send(
            kind=kind, sender=sender, receiver=receiver, round=round, arrays=arrays, meta=meta
        )

    def note_truth(self, target: str, **arrays: Array) -> None:
        _, separator, number = target.rpartition("/round-")
        if separator and int(number) in self._rounds and "update" in arrays:
            self._updates[int(number)].append(arrays["update"].copy())

    def heard(self, t: int) -> tuple[Array, Array] | None:
        """Return (sequences, updates) of a round, users in order; None if it was not reached."""
        if not self._sequences[t]:
            return None
        return np.stack(self._sequences[t]), np.stack(self._updates[t])


def distances_by_similarity(sequences: Array, updates: Array) -> dict[str, Distances]:
    """Return the matrix of each similarity of the tables."""
    found = {
        name: pairwise_distances(sequences, threads=1, **options)
        for name, options in SEQUENCE_METRICS.items()
    }
    found[COSINE] = cosine_distances(updates)
    return found


def partition_row(distances: Distances, groups: Array) -> dict[str, float | None]:
    """Judge one matrix by the known groups: the paper's partition, and references beside it.

    ``dbi_found`` and ``dbi_groups`` are the Davies-Bouldin index of the partition that skips
    rejected edges (None for one cluster) and that of the known groups: if the second is smaller,
    the search missed a partition that its own criterion prefers.
    """
    same = np.equal.outer(groups, groups)
    apart = ~np.eye(len(groups), dtype=bool)
    tree = linkage(squareform(distances, checks=False), method="average")
    cut = fcluster(tree, t=len(np.unique(groups)), criterion="maxclust")
    stop = partition_by_spanning_tree(distances, edge_rule="stop")
    skip = partition_by_spanning_tree(distances, edge_rule="skip")
    return {
        "stop": adjusted_rand_score(groups, stop.assignment),
        "skip": adjusted_rand_score(groups, skip.assignment),
        "average_linkage": adjusted_rand_score(groups, cut),
        "within_between": float(distances[same & apart].mean() / distances[~same].mean()),
        "dbi_found": skip.davies_bouldin if np.isfinite(skip.davies_bouldin) else None,
        "dbi_groups": davies_bouldin(distances, groups)[0],
    }


def training_record(outcome: RunOutcome) -> dict[str, Any]:
    """Return how a run ended, and its figures by round."""

    def series(name: str) -> list[float | None]:
        values = [m.values.get(name, float("nan")) for m in outcome.metrics]
        return [v if np.isfinite(v) else None for v in values]

    return {
        "status": outcome.status,
        "rounds": outcome.rounds,
        "reason": outcome.reason,
        "accuracy": series("accuracy"),
        "phi": series("clipping_threshold"),
        "pre_ari": series("pre_ari"),
        "final_ari": series("final_ari"),
        "pre_clusters": series("pre_clusters"),
    }


def clustering(setting: Setting, seed: int, data_root: Path | None) -> dict[str, Any]:
    """Compare the similarities in the first and in a later round, for both meanings of g_i.

    The rounds between are those of PA-CFL*, so that noise plays no part. The run with
    ``update = "fedavg"`` is trained to its end and is the table's PA-CFL*.
    """
    data = federate(setting.federation(), seed=seed, data_root=data_root)
    if data.groups is None:
        raise ValueError("the partition 'clustered' gives groups")
    rows, runs = [], {}
    for update in ("gradient", "fedavg"):
        listener = Listener({1, setting.late_round})
        config = setting.run(
            seed,
            rounds=setting.rounds if update == "fedavg" else setting.late_round,
            update=update,
            protection=False,
            **AS_IN_EXPERIMENTS,
        )
        outcome = simulate(config, data, recorder=listener)
        if update == "fedavg":
            runs[NON_PRIVATE] = training_record(outcome)
        for t in sorted({1, setting.late_round}):
            heard = listener.heard(t)
            if heard is None:
                continue
            for name, matrix in distances_by_similarity(*heard).items():
                row = partition_row(matrix, data.groups)
                rows.append({"update": update, "round": t, "similarity": name, **row})
    return {"rows": rows, "runs": runs}


def overlap_labels(percent: int) -> tuple[int, ...]:
    """Return the five labels of a user that shares so many per cent of its labels with U1.

    U1 holds 0-4, U2 (0 %) 5-9; with m shared labels a user holds the last m of U1's and the first
    5 - m of U2's.
    """
    shared = percent // 20
    return tuple(range(5 - shared, 10 - shared))


def overlapping_users(
    dataset: Dataset, per_label: int, *, rng: np.random.Generator
) -> FederatedData:
    """Return U1 to U7 of Figure 11(a): disjoint records, equally many of each held label."""
    order = rng.permutation(len(dataset.train))
    used = dict.fromkeys(range(dataset.classes), 0)
    clients = []
    for number, percent in enumerate((100, *OVERLAPS), start=1):
        labels = overlap_labels(percent)
        held = []
        for label in labels:
            stock = order[dataset.train.labels[order] == label]
            taken = stock[used[label] : used[label] + per_label]
            if len(taken) < per_label:
                raise ValueError(f"'{dataset.name}' has too few records of class {label}")
            used[label] += per_label
            held.append(taken)
        test = np.flatnonzero(np.isin(dataset.test.labels, labels))[:100]
        clients.append(
            ClientData(
                f"user-{number}",
                dataset.train.take(rng.permutation(np.concatenate(held))),
                dataset.test.take(test),
            )
        )
    nobody = LabelledImages(dataset.train.images[:0], dataset.train.labels[:0])
    return FederatedData(dataset.name, dataset.classes, tuple(clients), None, nobody)


def overlap(setting: Setting, seed: int, data_root: Path | None) -> dict[str, Any]:
    """Return the distance of U2 ... U7 to U1 by metric, each divided by the metric's largest."""
    dataset = load_dataset(setting.dataset, data_root=data_root, seed=seed)
    data = overlapping_users(
        dataset, setting.overlap_records_per_label, rng=np.random.default_rng([seed, 11])
    )
    listener = Listener({1})
    simulate(setting.run(seed, rounds=1, protection=False), data, recorder=listener)
    heard = listener.heard(1)
    if heard is None:
        raise ValueError("round 1 sends permutation sequences")
    sequences, updates = heard
    to_first = {
        name: pairwise_distances(sequences, threads=1, **options)[0, 1:]
        for name, options in SEQUENCE_METRICS.items()
    }
    double = updates.astype(np.float64)
    for name, metric in UPDATE_METRICS.items():
        to_first[name] = cdist(double[:1], double[1:], metric)[0]
    to_first[MAX_NORM] = cdist(double[:1], double[1:], "chebyshev")[0]
    return {"curves": {name: list(values / values.max()) for name, values in to_first.items()}}


def training(setting: Setting, seed: int, data_root: Path | None) -> dict[str, Any]:
    """Train PA-CFL at each local budget, and FedAvg."""
    plans: dict[str, SimulationConfig] = {}
    for epsilon in EPSILONS:
        plans[f"PA-CFL, eps0 = {epsilon:g}"] = setting.run(
            seed, epsilon0=epsilon, **AS_IN_EXPERIMENTS
        )
    plans["PA-CFL, eps0 = 1, rbo"] = setting.run(seed, epsilon0=1.0, **RBO)
    plans[FEDAVG] = setting.run(seed, protocol="fedavg")
    return _train(setting, seed, data_root, plans)


def ablation(setting: Setting, seed: int, data_root: Path | None) -> dict[str, Any]:
    """Train PA-CFL* without a component (Table 2, last rows), and with rank-biased overlap."""
    plans = {
        NO_FINE: setting.run(seed, protection=False, fine_clustering=False, **AS_IN_EXPERIMENTS),
        NO_PRE: setting.run(seed, protection=False, pre_clustering=False),
        NON_PRIVATE_RBO: setting.run(seed, protection=False, **RBO),
        "PA-CFL, eps0 = 10, rbo": setting.run(seed, epsilon0=10.0, **RBO),
    }
    return _train(setting, seed, data_root, plans)


def _train(
    setting: Setting, seed: int, data_root: Path | None, plans: Mapping[str, SimulationConfig]
) -> dict[str, Any]:
    data = federate(setting.federation(), seed=seed, data_root=data_root)
    return {
        "runs": {
            name: training_record(simulate(config, data, recorder=NullRecorder()))
            for name, config in plans.items()
        }
    }
