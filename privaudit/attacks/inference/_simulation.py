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
from privaudit.protocols.pa_cfl.sequences import permutation_sequence
from privaudit.protocols.training import UpdateKind, local_update
from privaudit.transcript import View

__all__ = ["SimulatedUsers", "TrainingParameters", "draw_user", "simulate_users", "split_records"]


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

    ``sequences`` (users, k) int64; ``histograms`` (users, classes) float64, rows sum to one;
    ``concentrations`` (users,) float64 and ``records`` (users,) int64, what each was drawn with;
    ``groups`` (users,) int64, from which part of the auxiliary records.
    """

    sequences: npt.NDArray[np.int64]
    histograms: npt.NDArray[np.float64]
    concentrations: npt.NDArray[np.float64]
    records: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sequences)


def simulate_users(
    concentrations: Sequence[float],
    *,
    k: int,
    records: Sequence[int],
    training: TrainingParameters,
    knowledge: Knowledge,
    parts: Sequence[LabelledImages],
    rng: np.random.Generator,
) -> SimulatedUsers:
    """Train a user on auxiliary records for each concentration of its label distribution.

    A user's label shares are a draw of Dirichlet(concentration * classes * p), with p the shares of
    the auxiliary records, or p itself where the concentration is infinite; its number of records
    is one of ``records``. Users take turns with the ``parts`` of the auxiliary records and draw
    from theirs alone, so that those of different parts can validate each other. A record is drawn
    again only once all of its label in the part have been.

    Users whose training diverged are left out.

    Raises
    ------
    ConfigurationError
        If fewer than two are left.
    """
    model_spec, parameters, auxiliary = knowledge.model, knowledge.parameters, knowledge.auxiliary
    if model_spec is None or parameters is None or auxiliary is None:
        raise ConfigurationError("simulating users needs a model, parameters and auxiliary data")
    model = build(model_spec, seed=0)
    classes = model_spec.classes
    population = np.bincount(auxiliary.labels, minlength=classes) / len(auxiliary)
    present = population > 0
    sequences, histograms, drawn = [], [], []
    for position, concentration in enumerate(concentrations):
        group = position % len(parts)
        size = int(rng.choice(records))
        shares = population
        if np.isfinite(concentration):
            shares = np.zeros(classes)
            scale = concentration * int(present.sum())
            shares[present] = rng.dirichlet(scale * population[present])
        user = _with_shares(parts[group], shares, size, rng, distinct=True)
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
            sequences.append(permutation_sequence(update, k=k))
            histograms.append(np.bincount(user.labels, minlength=classes) / len(user))
            drawn.append((concentration, size, group))
    if len(sequences) < 2:
        raise ConfigurationError(
            f"the training of {len(concentrations) - len(sequences)} of {len(concentrations)} "
            f"simulated users diverged at learning rate {training.learning_rate}, and at least two "
            "are needed"
        )
    return SimulatedUsers(
        np.stack(sequences),
        np.stack(histograms),
        np.array([concentration for concentration, _, _ in drawn], np.float64),
        np.array([size for _, size, _ in drawn], np.int64),
        np.array([group for _, _, group in drawn], np.int64),
    )


def split_records(
    auxiliary: LabelledImages, parts: int, *, rng: np.random.Generator
) -> tuple[LabelledImages, ...]:
    """Deal the records out to parts, each label evenly.

    Every part holds every label: one with fewer records than parts is whole in all of them, and
    there alone parts have records in common.
    """
    dealt: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(parts)]
    for label in np.unique(auxiliary.labels):
        held = rng.permutation(np.flatnonzero(auxiliary.labels == label))
        for number, own in enumerate(dealt):
            own.append(held[number::parts] if len(held) >= parts else held)
    return tuple(auxiliary.take(np.concatenate(own)) for own in dealt)


def draw_user(
    auxiliary: LabelledImages, classes: int, records: int, *, rng: np.random.Generator
) -> LabelledImages:
    """Draw the records of one user, with replacement within a label.

    Label shares are Dirichlet with a concentration that is log-uniform in [0.05, 10], over the
    classes that the auxiliary records hold.
    """
    present = np.bincount(auxiliary.labels, minlength=classes) > 0
    concentration = np.exp(rng.uniform(np.log(0.05), np.log(10.0)))
    shares = np.zeros(classes)
    shares[present] = rng.dirichlet(np.full(int(present.sum()), concentration))
    return _with_shares(auxiliary, shares, records, rng)


def _with_shares(
    auxiliary: LabelledImages,
    shares: npt.NDArray[np.float64],
    records: int,
    rng: np.random.Generator,
    *,
    distinct: bool = False,
) -> LabelledImages:
    """Draw records with replacement within a label; or distinct ones, until all have been used."""
    counts = rng.multinomial(records, shares)
    chosen = []
    for label in np.flatnonzero(counts):
        held, count = np.flatnonzero(auxiliary.labels == label), int(counts[label])
        if distinct:
            held = rng.permutation(held)
            chosen.append(np.resize(held, count))
        else:
            chosen.append(rng.choice(held, size=count))
    return auxiliary.take(rng.permutation(np.concatenate(chosen)))
