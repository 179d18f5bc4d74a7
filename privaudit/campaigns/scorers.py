"""Metrics by kind of guess, and those of the registered scorers that apply to an attack."""

from __future__ import annotations

import warnings
from functools import cache, partial

import numpy as np

from privaudit import plugins
from privaudit.attacks.base import Attack
from privaudit.attacks.inference import PropertyInference
from privaudit.errors import PluginError, PrivauditWarning
from privaudit.scoring.base import Metric, ScoredRun
from privaudit.scoring.base import Scorer as RegisteredScorer
from privaudit.scoring.coordinates import coordinate_accuracy, placed_energy
from privaudit.scoring.labels import dominant_label, label_accuracy, label_overlap
from privaudit.scoring.membership import auc_scores, hit_scores
from privaudit.scoring.properties import majority_accuracy, share_error
from privaudit.scoring.reconstruction import identification, psnr, ssim
from privaudit.scoring.recovered import all_exact, exact_fraction, relative_error
from privaudit.scoring.vectors import cosine_beyond, vector_cosine

__all__ = [
    "Named",
    "coordinate_scorers",
    "image_scorers",
    "label_scorers",
    "membership_scorers",
    "model_scorers",
    "property_scorers",
    "scorers_for",
    "vector_scorers",
]

#: Name, scorer and unit; the first of several gives the headline figure.
Named = tuple[Metric, ...]


def image_scorers(run: ScoredRun) -> Named:
    """Return the scores of reconstructed images."""
    return (
        ("identification", partial(identification, pool=run.auxiliary), "proportion"),
        ("PSNR", psnr, "dB"),
        ("SSIM", ssim, ""),
    )


def label_scorers(run: ScoredRun) -> Named:
    """Return the scores of inferred labels: of the only record, or of a user's many."""
    truth = run.truth
    users = run.transcript.ids("user")
    held = [truth.targets.get(u, {}).get("labels") for u in users] if truth is not None else []
    if held and all(labels is not None and labels.size == 1 for labels in held):
        return (("label accuracy", label_accuracy, "proportion"),)
    return (("dominant label", dominant_label, "proportion"), ("label overlap", label_overlap, ""))


def membership_scorers(*, others: int) -> Named:
    """Return the scores of an attack on membership.

    Parameters
    ----------
    others : int
        Candidates that are no members: hits are counted at one false alarm in a hundred, or in
        ten where there are fewer than a hundred, and not at all with fewer than ten.
    """
    area: Named = (("membership AUC", auc_scores, ""),)
    if others < 10:
        return area
    rate = 0.01 if others >= 100 else 0.1
    hits = partial(hit_scores, false_positives=rate)
    return (*area, (f"members found at {rate:.0%} false alarms", hits, "proportion"))


def property_scorers(attack: PropertyInference, run: ScoredRun) -> Named:
    """Return the scores of an inferred share; none without auxiliary records to say of what."""
    if run.auxiliary is None or not len(run.auxiliary):
        return ()
    attribute = attack.attribute(run.auxiliary)
    return (
        (
            "majority told rightly",
            partial(majority_accuracy, attribute=attribute),
            "proportion",
        ),
        ("error of the share", partial(share_error, attribute=attribute), ""),
    )


def model_scorers(*, name: str, reference: str) -> Named:
    """Return the scores of recovered models.

    Parameters
    ----------
    name : str
        The truth's array that is matched value by value.
    reference : str
        The truth's array whose direction is compared.
    """
    return (
        ("models recovered exactly", partial(all_exact, name=name), "proportion"),
        ("exact coordinates", partial(exact_fraction, name=name), ""),
        ("relative error", partial(relative_error, name=reference), ""),
    )


def coordinate_scorers() -> Named:
    """Return the scores of values that were placed at coordinates."""
    return (
        ("coordinate accuracy", coordinate_accuracy, "proportion"),
        ("energy placed rightly", placed_energy, ""),
    )


def vector_scorers(run: ScoredRun) -> Named:
    """Return the scores of rebuilt directions, beyond what all clients have in common."""
    initial = run.transcript.public_arrays.get("initial-parameters")
    plain = ("cosine", vector_cosine, "")
    if initial is None or not np.any(initial):
        return (plain,)
    return (("cosine beyond the global model", cosine_beyond(initial), ""), plain)


def scorers_for(attack: Attack, run: ScoredRun) -> Named:
    """Return the metrics of the registered scorers that apply to an attack, the headline's first.

    None if no scorer applies, or the truth was not handed over.

    Raises
    ------
    PluginError
        If two scorers that apply call a metric alike.
    """
    if run.truth is None:
        return ()
    family = f"{attack.name.partition('/')[0]}/*"
    for wanted in (attack.name, family):
        applying = [scorer for scorer in _registered() if wanted in scorer.attacks]
        if applying:
            break
    metrics = [metric for scorer in applying for metric in scorer.metrics(attack, run)]
    names = [name for name, _, _ in metrics]
    for name in names:
        if names.count(name) > 1:
            raise PluginError(
                f"attack '{attack.name}': the scorers {', '.join(s.name for s in applying)} have "
                f"two metrics named '{name}'"
            )
    return tuple(metrics)


@cache
def _registered() -> tuple[RegisteredScorer, ...]:
    """Return every scorer that can be used, this package's first, then by name.

    Kept for the life of the process: distributions do not come and go, and cells ask often.
    """
    found: list[tuple[bool, str, RegisteredScorer]] = []
    for name, entries in plugins.available("scorer").items():
        try:
            scorer: RegisteredScorer = plugins.load("scorer", name)()
        except PluginError as error:
            warnings.warn(f"{error}; its metrics are missing", PrivauditWarning, stacklevel=3)
            continue
        found.append((not entries[0].value.startswith("privaudit."), name, scorer))
    return tuple(scorer for _, _, scorer in sorted(found, key=lambda f: f[:2]))
