"""The losses of inter-group aggregation (eq. 8 to 13), as functions of logits and images.

``paper`` and ``fedftg_code`` differ: the second set of functions, named ``released_...``, is what
the published code of FedFTG computes, on which DisUE builds. This module imports torch.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, softmax

__all__ = [
    "Direction",
    "distillation_loss",
    "divergences",
    "diversity_loss",
    "fidelity_loss",
    "generator_objective",
    "released_discrepancy",
    "released_fidelity",
    "released_student_loss",
]

Direction = Literal["student_teacher", "teacher_student"]


def divergences(student: Tensor, teachers: Tensor, *, direction: Direction) -> Tensor:
    """Return the KL divergence between the student's and each teacher's softmax (eq. 9).

    Parameters
    ----------
    student : Tensor, shape (batch, classes)
        Logits of the global model.
    teachers : Tensor, shape (clusters, batch, classes)
        Logits of the cluster models.
    direction : {"student_teacher", "teacher_student"}
        ``"student_teacher"``: KL(student || teacher), as eq. 9 names them; the other is the usual
        one of distillation.

    Returns
    -------
    Tensor, shape (clusters, batch)
    """
    s = log_softmax(student, dim=-1).expand_as(teachers)
    t = log_softmax(teachers, dim=-1)
    first, second = (s, t) if direction == "student_teacher" else (t, s)
    return (first.exp() * (first - second)).sum(dim=-1)


def distillation_loss(
    student: Tensor, teachers: Tensor, weights: Tensor, *, direction: Direction
) -> Tensor:
    """Return L_cd: the mean over the batch of the weighted divergences (eq. 8).

    Parameters
    ----------
    weights : Tensor, shape (clusters, batch)
        alpha_y^k of each image's label.
    """
    return (weights * divergences(student, teachers, direction=direction)).sum(dim=0).mean()


def fidelity_loss(teachers: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return L_cf: the weighted cross entropy of the cluster models on the labels (eq. 10, 11).

    Parameters
    ----------
    teachers : Tensor, shape (clusters, batch, classes)
    labels : Tensor of int64, shape (batch,)
    weights : Tensor, shape (clusters, batch)
    """
    each = torch.stack([cross_entropy(t, labels, reduction="none") for t in teachers])
    return (weights * each).sum(dim=0).mean()


def diversity_loss(images: Tensor, noise: Tensor) -> Tensor:
    """Return L_div, in (0, 1]: small where distant noise gives distant images (eq. 12).

    exp of minus the mean, over all Q^2 pairs, of the product of two distances: mean absolute
    difference of the images, mean squared difference of the noise vectors (as in FedGen and
    FedFTG; DisUE writes norms without naming them).

    Parameters
    ----------
    images : Tensor, shape (Q, ...)
    noise : Tensor, shape (Q, length)
    """
    flat = images.flatten(start_dim=1)
    apart = (flat[:, None] - flat[None, :]).abs().mean(dim=-1)
    drawn = (noise[:, None] - noise[None, :]).square().mean(dim=-1)
    return torch.exp(-(apart * drawn).mean())


def generator_objective(
    distillation: Tensor,
    fidelity: Tensor,
    diversity: Tensor,
    *,
    beta_fidelity: float,
    beta_diversity: float,
) -> Tensor:
    """Return what the generator maximises and the student minimises (eq. 13)."""
    return distillation - beta_fidelity * fidelity - beta_diversity * diversity


def released_discrepancy(student: Tensor, teacher: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean absolute difference of the logits, for one teacher.

    Parameters
    ----------
    student, teacher : Tensor, shape (batch, classes)
    weight : Tensor, shape (batch,)
    """
    return ((student - teacher).abs().mean(dim=1) * weight).mean()


def released_fidelity(teacher: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """Return the mean cross entropy of one teacher times its mean weight."""
    return cross_entropy(teacher, labels) * weight.mean()


def released_student_loss(student: Tensor, teachers: Tensor, weights: Tensor) -> Tensor:
    """Return the cross entropy to the weighted teachers, averaged over batch and classes.

    Parameters
    ----------
    student : Tensor, shape (batch, classes)
    teachers : Tensor, shape (clusters, batch, classes)
    weights : Tensor, shape (clusters, batch)
    """
    target = (weights[..., None] * softmax(teachers, dim=-1)).sum(dim=0)
    return -(target * log_softmax(student, dim=-1)).mean()
