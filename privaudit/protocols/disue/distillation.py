"""Inter-group aggregation: distil the cluster models into the global one without data.

This module imports torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from privaudit.models import flatten_parameters, load_parameters
from privaudit.protocols.disue import objectives
from privaudit.protocols.disue.config import DistillationConfig
from privaudit.protocols.disue.labels import label_distribution, teacher_weights

__all__ = ["Distiller", "Sample", "draw_labels"]

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sample:
    """What is drawn for one step: noise, labels, and each teacher's weight on each label.

    Attributes
    ----------
    noise : Tensor, shape (batch, length)
    labels : Tensor of int64, shape (batch,)
    weights : Tensor, shape (clusters, batch)
    """

    noise: Tensor
    labels: Tensor
    weights: Tensor


def draw_labels(
    distribution: npt.NDArray[np.float64], size: int, *, stratified: bool, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw labels from p(y): independently, or as FedFTG's code in fixed shares, shuffled."""
    if not stratified:
        return rng.choice(len(distribution), size=size, p=distribution).astype(np.int64)
    ends = (np.cumsum(distribution) * size).astype(np.int64)
    # What rounding leaves over goes to the last class that occurs, never to one without records.
    ends[np.flatnonzero(distribution)[-1] :] = size
    return rng.permutation(np.searchsorted(ends, np.arange(size), side="right").astype(np.int64))


class Distiller:
    """The server's generator and the loop that trains it against the global model.

    Parameters
    ----------
    config : DistillationConfig
    model : torch.nn.Module
        The classifiers' architecture; it is copied. Only parameters travel, so that the server has
        no running statistics: its copies normalise over the generated batch.
    generator : torch.nn.Module
    classes : int
    """

    def __init__(
        self, config: DistillationConfig, *, model: nn.Module, generator: nn.Module, classes: int
    ) -> None:
        self.config, self.classes = config, classes
        self._template, self.generator = _server_copy(model), generator

    @property
    def parameters(self) -> Float32:
        """The generator's parameters theta_G, flat."""
        return flatten_parameters(self.generator)

    def refine(
        self,
        student: Float32,
        teachers: Float32,
        counts: npt.NDArray[np.int64],
        *,
        decay: float,
        rng: np.random.Generator,
    ) -> Float32:
        """Return the global model after one round of distillation; the generator learns too.

        Parameters
        ----------
        student : ndarray of float32, shape (d,)
            The average of the cluster models.
        teachers : ndarray of float32, shape (clusters, d)
        counts : ndarray of int64, shape (clusters, classes)
        decay : float
            Factor on both learning rates in this round.
        rng : numpy.random.Generator
            Draws noise and labels.

        Returns
        -------
        ndarray of float32, shape (d,)
            Perhaps not finite, if distillation diverged.
        """
        config = self.config
        network = self._loaded(student)
        experts = [self._loaded(t).requires_grad_(False) for t in teachers]
        to_generator = torch.optim.Adam(
            self.generator.parameters(), lr=config.generator_learning_rate * decay
        )
        to_student = torch.optim.SGD(
            network.parameters(),
            lr=config.student_learning_rate * decay,
            weight_decay=config.student_weight_decay,
        )
        for sample in self.draw(counts, rng=rng):
            for _ in range(config.generator_steps):
                self.step_generator(to_generator, network, experts, sample)
            self._step_student(to_student, network, experts, sample)
        return flatten_parameters(network)

    def draw(self, counts: npt.NDArray[np.int64], *, rng: np.random.Generator) -> Iterator[Sample]:
        """Yield noise, labels (eq. 5) and the teachers' weights (eq. 6) for each iteration."""
        config = self.config
        total = counts.sum(axis=0, keepdims=True)
        if config.label_sampler == "uniform":
            total = (total > 0).astype(np.int64)
        distribution = label_distribution(total)
        shape = (config.distillation_iterations, config.distillation_batch_size)
        drawn = draw_labels(
            distribution,
            shape[0] * shape[1],
            stratified=config.distillation == "fedftg_code",
            rng=rng,
        ).reshape(shape)
        weights = teacher_weights(counts)
        if config.teacher_weighting == "equal":
            weights = np.full_like(weights, 1 / len(weights))
        for labels in drawn:
            noise = rng.standard_normal((shape[1], config.noise_dimension), dtype=np.float32)
            yield Sample(
                torch.from_numpy(noise),
                torch.from_numpy(labels),
                torch.from_numpy(weights[:, labels].astype(np.float32)),
            )

    def images(self, sample: Sample) -> Tensor:
        """Return G(z, y), one image a row of the sample (eq. 7)."""
        label = one_hot(sample.labels, self.classes).to(sample.noise.dtype)
        images: Tensor = self.generator(sample.noise, label)
        return images

    def step_generator(
        self,
        optimiser: torch.optim.Optimizer,
        student: nn.Module,
        experts: list[nn.Module],
        sample: Sample,
    ) -> None:
        """Take one step of ascent on eq. 13, or one a teacher as FedFTG's code does."""
        self.generator.train()
        groups = [experts] if self.config.distillation == "paper" else [[e] for e in experts]
        weights = [sample.weights] if self.config.distillation == "paper" else list(sample.weights)
        with _frozen(student):
            for teachers, weight in zip(groups, weights, strict=True):
                images = self.images(sample)
                logits = torch.stack([teacher(images) for teacher in teachers])
                loss = self._generator_loss(
                    images, student(images), logits, weight, sample, experts=len(experts)
                )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    def _generator_loss(
        self,
        images: Tensor,
        student: Tensor,
        teachers: Tensor,
        weights: Tensor,
        sample: Sample,
        *,
        experts: int,
    ) -> Tensor:
        config = self.config
        diversity = objectives.diversity_loss(images, sample.noise)
        if config.distillation == "paper":
            discrepancy = objectives.distillation_loss(
                student, teachers, weights, direction=config.kl
            )
            fidelity = objectives.fidelity_loss(teachers, sample.labels, weights)
        else:
            # The released code does not let the discrepancy reach the images through the teacher.
            discrepancy = objectives.released_discrepancy(student, teachers[0].detach(), weights)
            fidelity = objectives.released_fidelity(teachers[0], sample.labels, weights)
            diversity = diversity / experts
        return -objectives.generator_objective(
            discrepancy,
            fidelity,
            diversity,
            beta_fidelity=config.beta_fidelity,
            beta_diversity=config.beta_diversity,
        )

    def _step_student(
        self,
        optimiser: torch.optim.Optimizer,
        student: nn.Module,
        experts: list[nn.Module],
        sample: Sample,
    ) -> None:
        self.generator.eval()
        with torch.no_grad():
            images = self.images(sample)
            logits = torch.stack([expert(images) for expert in experts])
        for _ in range(self.config.student_steps):
            guesses = student(images)
            if self.config.distillation == "paper":
                loss = objectives.distillation_loss(
                    guesses, logits, sample.weights, direction=self.config.kl
                )
            else:
                loss = objectives.released_student_loss(guesses, logits, sample.weights)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def _loaded(self, parameters: Float32) -> nn.Module:
        network = copy.deepcopy(self._template)
        load_parameters(network, parameters)
        return network


def _server_copy(model: nn.Module) -> nn.Module:
    network = copy.deepcopy(model).eval()
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return network


@contextmanager
def _frozen(network: nn.Module) -> Iterator[None]:
    """Let gradients pass through a network without being kept at its parameters."""
    network.requires_grad_(False)
    try:
        yield
    finally:
        network.requires_grad_(True)
