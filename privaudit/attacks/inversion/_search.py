"""From checked observations to guesses: the search that all matching attacks share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from privaudit.attacks.base import Guesses
from privaudit.attacks.inversion._decoder import train_decoder
from privaudit.attacks.inversion._gradients import GradientEngine, Way
from privaudit.attacks.inversion._labels import one_hot
from privaudit.attacks.inversion._objectives import ObjectiveMaker
from privaudit.attacks.inversion._optimise import AdamSettings, Outcome, Simulated, adam
from privaudit.attacks.inversion._options import MatchingOptions
from privaudit.attacks.inversion._priors import (
    Pixels,
    Prior,
    class_gaussian,
    class_means,
    fills_its_space,
    principal_components,
)
from privaudit.attacks.inversion._regularisers import (
    GroupConsistency,
    Regulariser,
    batch_statistics,
)
from privaudit.datasets.base import LabelledImages
from privaudit.errors import ConfigurationError
from privaudit.models import ModelSpec, build, load_parameters

__all__ = [
    "Found",
    "as_guesses",
    "engine_for",
    "fits_prior",
    "probe_images",
    "search",
    "single_thread",
    "tensor",
]

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

_UNIFORM_PROBES = 4

#: Share of uniform noise in a start at class means, where an update has several records.
_NOISE = np.float32(0.3)

#: Logit of the restored label where labels are optimised: a probability of about a half.
_LABEL_LOGIT = 2.0

_LARGEST_LOSS = 1e30


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Images (targets, records, ...), losses (targets,), and what the search took."""

    images: Tensor
    losses: Tensor
    evaluations: int
    at_once: int


def joined(parts: Sequence[tuple[Int64, Found]]) -> Found:
    """Return what searches for some targets each found, all in order of the targets' positions."""
    order = np.argsort(np.concatenate([positions for positions, _ in parts]))
    return Found(
        torch.cat([found.images for _, found in parts])[order],
        torch.cat([found.losses for _, found in parts])[order],
        sum(found.evaluations for _, found in parts),
        min(found.at_once for _, found in parts),
    )


@contextmanager
def single_thread() -> Iterator[None]:
    """Run torch on one CPU thread and restore the number afterwards.

    The attacks' operations are small; on shared machines more threads make them slower, and sums
    would depend on their number.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def engine_for(
    spec: ModelSpec,
    parameters: Float32,
    *,
    batch_norm: str,
    device: str,
    records: int = 1,
    dtype: torch.dtype = torch.float32,
) -> GradientEngine:
    """Build the declared model at the declared parameters.

    Raises
    ------
    ConfigurationError
        If the device is not there.
    """
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigurationError(f"device '{device}' is not known; use 'cpu', 'cuda' or 'cuda:1'")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigurationError(f"device '{device}' is not available here; use 'cpu'")
    model = build(spec, seed=0)
    load_parameters(model, parameters)
    return GradientEngine(
        model.to(device=device, dtype=dtype),
        input_shape=spec.input_shape,
        classes=spec.classes,
        batch_norm=batch_norm,
        records=records,
    )


def tensor(array: npt.NDArray[np.generic], engine: GradientEngine) -> Tensor:
    """Return an array on the engine's device; floats in its precision, integers as they are."""
    copied = torch.from_numpy(np.array(array, order="C"))
    if copied.is_floating_point():
        return copied.to(engine.device, engine.dtype)
    return copied.to(engine.device)


def probe_images(
    engine: GradientEngine, auxiliary: LabelledImages | None, rng: np.random.Generator
) -> Float32:
    """Return images to try with each label (classes, n, ...): class means, or uniform noise."""
    if auxiliary is not None:
        return class_means(auxiliary, engine.classes)[:, None]
    noise = rng.random((_UNIFORM_PROBES, *engine.input_shape), dtype=np.float32)
    return np.repeat(noise[None], engine.classes, axis=0)


def search(
    engine: GradientEngine,
    make: ObjectiveMaker,
    labels: Int64,
    *,
    options: MatchingOptions,
    auxiliary: LabelledImages | None,
    rng: np.random.Generator,
    signed: bool = False,
    optimise_labels: bool = False,
    start: Float32 | None = None,
    simulated: Simulated | None = None,
    statistics: Float32 | None = None,
) -> Found:
    """Return best images and loss of each target, and what it took.

    Parameters
    ----------
    labels : ndarray of int64, shape (targets, records)
        ``optimise_labels`` searches for others, from there.
    auxiliary : LabelledImages or None
        The records that the adversary may use; must be there if start or prior needs them.
    start : ndarray of float32, shape (targets, records, channels, height, width), optional
        Where the first restart begins, instead of what the options say.
    simulated : Simulated, optional
        What computes the dummies' updates, instead of the engine.
    statistics : ndarray of float32, shape (targets, statistics), optional
        What users told of their batch normalisation, for ``options.batch_statistics``.

    Raises
    ------
    UnmetRequirementsError
        If ``options.batch_statistics`` asks for what the network or the adversary does not have.
    """
    terms: list[Regulariser] = []
    if options.batch_statistics:
        # Drawn from a generator of its own: the starts must not depend on it.
        seeded = np.random.default_rng(int(rng.integers(2**31)))
        terms.append(
            batch_statistics(
                engine,
                statistics,
                auxiliary,
                weight=options.batch_statistics,
                attack=options.name,
                rng=seeded,
            )
        )
    shape = (options.restarts, *labels.shape, *engine.input_shape)
    first = rng.random(shape, dtype=np.float32)
    if start is not None:
        first[0] = start
    elif options.init == "class-mean" or (options.init == "auto" and auxiliary is not None):
        assert auxiliary is not None
        means = class_means(auxiliary, engine.classes)[labels]
        # Records of one label must not start at one point: they would never part.
        noise = _NOISE if labels.shape[1] > 1 else np.float32(0)
        first[0] = (1 - noise) * means + noise * first[0]
    starts = tensor(first, engine)
    images = starts[0].clone()
    losses = torch.full_like(images[:, 0, 0, 0, 0], math.inf)
    prior = _prior(options, auxiliary, labels.ravel(), engine.classes, like=starts)
    known = one_hot(labels.ravel(), engine).reshape(*labels.shape, -1)
    if optimise_labels:
        known = _LABEL_LOGIT * known
    settings = AdamSettings(
        iterations=options.iterations,
        learning_rate=options.learning_rate,
        total_variation=(
            options.total_variation if isinstance(prior, Pixels) else options.prior_variation
        ),
        signed=signed,
        optimise_labels=optimise_labels,
    )

    def searched(rows: Tensor, first: Tensor, group: int = 1) -> Outcome:
        records = rows[:, None] * labels.shape[1] + torch.arange(
            labels.shape[1], device=rows.device
        )
        return adam(
            make,
            engine,
            prior.of(records.flatten()),
            rows=rows,
            first=first,
            labels=known[rows],
            settings=settings,
            simulated=simulated,
            regularisers=tuple(terms),
            group=group,
        )

    if options.group_consistency:
        size = len(starts)
        terms.append(GroupConsistency(size, options.group_consistency))
        rows = torch.arange(len(labels), device=engine.device).repeat_interleave(size)
        outcome = searched(rows, starts.transpose(0, 1).flatten(0, 1), size)
        lowest = outcome.losses.reshape(-1, size).nan_to_num(nan=math.inf).min(1)
        chosen = torch.arange(len(labels), device=engine.device) * size + lowest.indices
        return Found(outcome.images[chosen], lowest.values, outcome.evaluations, outcome.at_once)
    evaluations, at_once = 0, len(labels)
    for begin in starts:
        rows = (losses > options.tolerance).nonzero(as_tuple=True)[0]
        if not len(rows):
            break
        outcome = searched(rows, begin[rows])
        better = outcome.losses < losses[rows]
        images[rows[better]] = outcome.images[better]
        losses[rows[better]] = outcome.losses[better]
        evaluations += outcome.evaluations
        at_once = min(at_once, outcome.at_once)
    return Found(images, losses, evaluations, at_once)


def fits_prior(options: MatchingOptions, auxiliary: LabelledImages | None, classes: int) -> bool:
    """Whether a search with these options fits a prior to auxiliary records."""
    if options.prior != "auto":
        return options.prior != "none"
    return auxiliary is not None and fills_its_space(auxiliary, classes)


def _prior(
    options: MatchingOptions,
    auxiliary: LabelledImages | None,
    labels: Int64,
    classes: int,
    *,
    like: Tensor,
) -> Prior:
    if not fits_prior(options, auxiliary, classes):
        return Pixels()
    assert auxiliary is not None
    if options.prior == "decoder":
        return train_decoder(
            auxiliary, latent=options.components, weight=options.prior_weight, like=like
        )
    if options.prior == "pca":
        return principal_components(
            auxiliary, components=options.components, weight=options.prior_weight, like=like
        )
    return class_gaussian(
        auxiliary, labels, classes=classes, weight=options.prior_weight, like=like
    )


def as_guesses(
    users: tuple[str, ...],
    found: Found,
    *,
    way: Way,
    extra: dict[str, float] | None = None,
) -> Guesses:
    """Return images, clamped to [0, 1], as guesses scored by their negative loss.

    A guess is one image if the update is of one record, else as many images as there are records.
    """
    clamped = found.images.detach().clamp(0, 1).to("cpu", torch.float32).numpy()
    if clamped.shape[1] == 1:
        clamped = clamped[:, 0]
    # A search whose loss was never finite is the least sure one; scores stay finite.
    loss = np.minimum(found.losses.detach().to("cpu", torch.float64).numpy(), _LARGEST_LOSS)
    return Guesses(
        target_ids=users,
        values=tuple(np.ascontiguousarray(image) for image in clamped),
        scores=-loss,
        diagnostics={
            "mean loss": float(loss.mean()),
            "largest loss": float(loss.max()),
            "evaluations": float(found.evaluations),
            "updates at once": float(found.at_once),
            "factored engine": float(way != "dense"),
            "derivatives by hand": float(way == "chain"),
            **(extra or {}),
        },
    )
