"""Auxiliary users, simulated as the protocol trains them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError
from privaudit.models import build
from privaudit.protocols.training import UpdateKind, local_update
from privaudit.transcript import View

__all__ = ["SimulatedUsers", "TrainingParameters", "draw_user", "simulate_users"]


@dataclass(frozen=True, slots=True)
class TrainingParameters:
    """How users train, as the run makes public."""

    learning_rate: float
    batch_size: int
    epochs: int
    mode: UpdateKind

    @classmethod
    def of(cls, view: View) -> TrainingParameters:
        """Read them from the public ``configuration`` of a run.

        Raises
        ------
        ConfigurationError
            If one is not public, or is out of range.
        """
        public = view.public.get("configuration")
        names = ("learning_rate", "batch_size", "local_epochs", "update")
        if not isinstance(public, Mapping) or not all(name in public for name in names):
            raise ConfigurationError(
                f"simulating users needs {', '.join(names)} in the public 'configuration' of the "
                f"run; it holds {sorted(public) if isinstance(public, Mapping) else 'nothing'}"
            )
        rate, batch, epochs, mode = (public[name] for name in names)
        numbers = isinstance(rate, float | int) and isinstance(batch, int)
        if not (numbers and isinstance(epochs, int) and mode in ("fedavg", "gradient")):
            raise ConfigurationError(
                f"public 'configuration': learning_rate {rate!r}, batch_size {batch!r}, "
                f"local_epochs {epochs!r} and update {mode!r} must be a number, two integers, and "
                "'fedavg' or 'gradient'"
            )
        return cls(
            float(cast(float, rate)),
            cast(int, batch),
            epochs,
            mode,
        )


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedUsers:
    """Updates' permutation sequences, and the label histograms that gave rise to them.

    ``sequences`` (users, k) int64; ``histograms`` (users, classes) float64, rows sum to one.
    """

    sequences: npt.NDArray[np.int64]
    histograms: npt.NDArray[np.float64]


def simulate_users(
    count: int,
    *,
    k: int,
    records: Sequence[int],
    training: TrainingParameters,
    knowledge: Knowledge,
    rng: np.random.Generator,
) -> SimulatedUsers:
    """Train ``count`` users on auxiliary records with label distributions of every skew.

    Each user's label distribution is a draw of a symmetric Dirichlet distribution whose
    concentration is log-uniform in [0.05, 10], because the skew of the real users is not known;
    its number of records is one of ``records``. Records are drawn with replacement within a label,
    so that a class may be asked for more often than the auxiliary data hold it.

    Users whose training diverged are left out.

    Raises
    ------
    ConfigurationError
        If all diverged.
    """
    model_spec, parameters, auxiliary = knowledge.model, knowledge.parameters, knowledge.auxiliary
    if model_spec is None or parameters is None or auxiliary is None:
        raise ConfigurationError("simulating users needs a model, parameters and auxiliary data")
    model = build(model_spec, seed=0)
    classes = model_spec.classes
    sequences, histograms = [], []
    for _ in range(count):
        user = draw_user(auxiliary, classes, int(rng.choice(records)), rng=rng)
        update = local_update(
            model,
            user.images,
            user.labels,
            parameters=parameters,
            learning_rate=training.learning_rate,
            batch_size=training.batch_size,
            epochs=training.epochs,
            mode=training.mode,
            rng=rng,
        )
        if np.isfinite(update).all():
            sequences.append(np.argsort(-np.abs(update), kind="stable")[:k])
            histograms.append(np.bincount(user.labels, minlength=classes) / len(user))
    if not sequences:
        raise ConfigurationError(
            f"the training of all {count} simulated users diverged at learning rate "
            f"{training.learning_rate}"
        )
    return SimulatedUsers(np.stack(sequences), np.stack(histograms))


def draw_user(
    auxiliary: LabelledImages, classes: int, records: int, *, rng: np.random.Generator
) -> LabelledImages:
    """Draw the records of one user, with replacement within a label.

    Label shares are Dirichlet with a concentration that is log-uniform in [0.05, 10], over the
    classes that the auxiliary records hold.
    """
    by_label = [np.flatnonzero(auxiliary.labels == c) for c in range(classes)]
    present = np.array([len(index) > 0 for index in by_label])
    concentration = np.exp(rng.uniform(np.log(0.05), np.log(10.0)))
    shares = np.zeros(len(by_label))
    shares[present] = rng.dirichlet(np.full(int(present.sum()), concentration))
    counts = rng.multinomial(records, shares)
    chosen = [rng.choice(by_label[c], size=n) for c, n in enumerate(counts) if n > 0]
    return auxiliary.take(rng.permutation(np.concatenate(chosen)))
