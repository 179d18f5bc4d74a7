"""Training on the adversary's own records as a run's users train, its noise included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privaudit.attacks.updates import ObservedUpdate, learning_rate, public_number
from privaudit.datasets.base import LabelledImages
from privaudit.errors import UnmetRequirementsError
from privaudit.models import build, load_parameters
from privaudit.models.spec import ModelSpec
from privaudit.protocols.training import local_update
from privaudit.transcript import View

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PublishedTraining", "record_gradients", "record_losses"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

#: Numbers of record gradients that are held at once.
_AT_ONCE = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTraining:
    """A network, and how a run says that users train it.

    Where the public configuration names a noise multiplier, updates are clipped and noised as
    differentially private users do it: each record's gradient, or the whole update.
    """

    spec: ModelSpec
    model: nn.Module
    view: View

    @classmethod
    def of(cls, view: View, spec: ModelSpec, *, attack: str) -> PublishedTraining:
        """Read how users train from a view.

        Raises
        ------
        UnmetRequirementsError
            If the view does not publish it.
        """
        public = view.public.get("configuration")
        names = ("learning_rate", "batch_size", "local_epochs", "update")
        if not isinstance(public, Mapping) or not all(n in public for n in names):
            raise UnmetRequirementsError(
                f"attack '{attack}' trains as users do and needs {', '.join(names)} in the public "
                f"'configuration'; it holds {sorted(public) if isinstance(public, Mapping) else ''}"
            )
        return cls(spec, build(spec, seed=0), view)

    def update(
        self, records: LabelledImages, start: Float32, *, round: int, rng: np.random.Generator
    ) -> Float32:
        """Return the update of a user who holds the records; it may be not finite."""
        view = self.view
        rate = learning_rate(view, round) or 0.0
        batch = int(public_number(view, "batch_size") or 1)
        epochs = int(public_number(view, "local_epochs") or 1)
        multiplier, clip = public_number(view, "noise_multiplier"), public_number(view, "clip_norm")
        public = view.public["configuration"]
        assert isinstance(public, Mapping)
        gradient = public["update"] == "gradient"
        private = multiplier is not None and clip is not None
        if private and public.get("privacy_level") != "user":
            assert multiplier is not None
            assert clip is not None
            steps = 1 if gradient else epochs * -(-len(records) // batch)
            share = 1.0 if gradient else min(1.0, batch / len(records))
            return self._private(
                records,
                start,
                rate=rate,
                steps=steps,
                share=share,
                clip=clip,
                multiplier=multiplier,
                rng=rng,
            )
        update = local_update(
            self.model,
            records.images,
            records.labels,
            parameters=start,
            learning_rate=rate,
            batch_size=batch,
            epochs=epochs,
            mode="gradient" if gradient else "fedavg",
            rng=rng,
            weight_decay=public_number(view, "weight_decay") or 0.0,
            clip_norm=None if private else clip,
        )
        if not private:
            return update
        assert multiplier is not None
        assert clip is not None
        norm = float(np.linalg.norm(update.astype(np.float64)))
        noise = rng.normal(scale=multiplier * clip, size=update.shape)
        noised: Float32 = (update * min(1.0, clip / max(norm, 1e-30)) + noise).astype(np.float32)
        return noised

    def _private(
        self,
        records: LabelledImages,
        start: Float32,
        *,
        rate: float,
        steps: int,
        share: float,
        clip: float,
        multiplier: float,
        rng: np.random.Generator,
    ) -> Float32:
        """Train by DP-SGD: clipped gradients of a Poisson sample, their sum noised."""
        parameters, total = start.astype(np.float64), np.zeros(len(start))
        expected = share * len(records)
        for _ in range(steps):
            drawn = np.flatnonzero(rng.random(len(records)) < share)
            step = rng.normal(scale=multiplier * clip, size=len(start))
            if len(drawn):
                gradients = record_gradients(
                    self.model, records.take(drawn), parameters.astype(np.float32)
                )
                norms = np.linalg.norm(gradients, axis=1)
                step += np.minimum(1.0, clip / np.maximum(norms, 1e-30)) @ gradients
            total += step / expected
            parameters = start - rate * total
        return total.astype(np.float32)

    def steps_and_noise(self, records: int) -> tuple[int, float]:
        """Return how many gradients an update sums, and the deviation of noise on their mean.

        Of an update of a user with so many records, divided by the number of steps.
        """
        view = self.view
        public = view.public["configuration"]
        assert isinstance(public, Mapping)
        batch = int(public_number(view, "batch_size") or 1)
        epochs = int(public_number(view, "local_epochs") or 1)
        gradient = public["update"] == "gradient"
        steps = 1 if gradient else epochs * -(-records // batch)
        multiplier, clip = public_number(view, "noise_multiplier"), public_number(view, "clip_norm")
        if multiplier is None or clip is None:
            return steps, 0.0
        if public.get("privacy_level") == "user":
            return steps, multiplier * clip / steps
        expected = records if gradient else min(records, batch)
        return steps, multiplier * clip / (expected * np.sqrt(steps))

    def clipped_gradients(self, records: LabelledImages, update: ObservedUpdate) -> Float64:
        """Return each record's gradient where an update started, (records, m).

        Coordinates are those that the view tells of the update; gradients are clipped where users
        clip those of records.
        """
        clip = public_number(self.view, "clip_norm")
        public = self.view.public["configuration"]
        assert isinstance(public, Mapping)
        private = public_number(self.view, "noise_multiplier") is not None
        by_record = private and public.get("privacy_level") != "user"
        rows = []
        step = max(1, _AT_ONCE // len(update.start))
        for first in range(0, len(records), step):
            part = records.take(np.arange(first, min(first + step, len(records))))
            found = record_gradients(self.model, part, update.start)
            if by_record and clip is not None:
                norms = np.linalg.norm(found, axis=1, keepdims=True)
                found *= np.minimum(1.0, clip / np.maximum(norms, 1e-30))
            rows.append(update.known(found).astype(np.float64))
        return np.concatenate(rows)


def record_gradients(model: nn.Module, records: LabelledImages, parameters: Float32) -> Float32:
    """Return the gradient of each record's cross entropy.

    Batch normalisation uses the running statistics of the model, since one record has none.

    Returns
    -------
    ndarray of float32, shape (records, d)
    """
    import torch
    from torch.nn.functional import cross_entropy

    load_parameters(model, parameters)
    model.eval()
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = torch.func.functional_call(model, values, (x[None],))
        return cross_entropy(logits, y[None])

    x, y = torch.from_numpy(np.array(records.images)), torch.from_numpy(np.array(records.labels))
    found = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, x, y)
    flat: Float32 = torch.cat([found[name].flatten(1) for name in weights], 1).numpy()
    return flat


def record_losses(model: nn.Module, records: LabelledImages, parameters: Float32) -> Float64:
    """Return each record's cross entropy, float64 of shape (records,)."""
    import torch
    from torch.nn.functional import cross_entropy

    load_parameters(model, parameters)
    model.eval()
    with torch.no_grad():
        losses = cross_entropy(
            model(torch.from_numpy(np.array(records.images))),
            torch.from_numpy(np.array(records.labels)),
            reduction="none",
        )
    return losses.numpy().astype(np.float64)
