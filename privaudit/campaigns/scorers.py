"""Which scores fit which attack."""

from __future__ import annotations

from functools import partial

import numpy as np

from privaudit.attacks.base import Attack
from privaudit.attacks.inference import PropertyInference
from privaudit.campaigns.cells import Scorer
from privaudit.campaigns.records import record_scorers
from privaudit.campaigns.runs import RecordedRun
from privaudit.scoring.coordinates import coordinate_accuracy, placed_energy
from privaudit.scoring.labels import dominant_label, label_accuracy, label_overlap
from privaudit.scoring.linking import link_accuracy
from privaudit.scoring.membership import auc_scores, hit_scores
from privaudit.scoring.properties import majority_accuracy, share_error
from privaudit.scoring.reconstruction import identification, psnr, ssim
from privaudit.scoring.recovered import all_exact, exact_fraction, relative_error
from privaudit.scoring.relabelled import relabelled_total_variation
from privaudit.scoring.vectors import cosine_beyond, vector_cosine

__all__ = [
    "Named",
    "image_scorers",
    "label_scorers",
    "membership_scorers",
    "model_scorers",
    "property_scorers",
    "scorers_for",
    "vector_scorers",
]

#: Name, scorer and unit; the first of several gives the headline figure.
Named = tuple[tuple[str, Scorer, str], ...]


def image_scorers(run: RecordedRun) -> Named:
    """Return the scores of reconstructed images."""
    return (
        ("identification", partial(identification, pool=run.auxiliary), "proportion"),
        ("PSNR", psnr, "dB"),
        ("SSIM", ssim, ""),
    )


def label_scorers(run: RecordedRun) -> Named:
    """Return the scores of inferred labels: of the only record, or of a user's many."""
    truth = run.truth
    users = run.transcript.ids("user")
    if truth is not None and all(np.size(truth.get(u, "labels")) == 1 for u in users):
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


def property_scorers(attack: PropertyInference, run: RecordedRun) -> Named:
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


def vector_scorers(run: RecordedRun) -> Named:
    """Return the scores of rebuilt directions, beyond what all clients have in common."""
    initial = run.transcript.public_arrays.get("initial-parameters")
    plain = ("cosine", vector_cosine, "")
    if initial is None or not np.any(initial):
        return (plain,)
    return (("cosine beyond the global model", cosine_beyond(initial), ""), plain)


def scorers_for(attack: Attack, run: RecordedRun) -> Named:
    """Return the scores that fit an attack; none if the truth was not handed over."""
    if run.truth is None:
        return ()
    family, _, _ = attack.name.partition("/")
    if family == "indices":
        return record_scorers(attack)
    if attack.name == "inversion/blind-coordinates":
        return coordinate_scorers()
    if attack.name == "inference/zero-sum-labels":
        return (("total variation, best naming", relabelled_total_variation, ""),)
    if family == "inversion" or attack.name == "cryptanalysis/pcsc-inversion":
        return image_scorers(run)
    if attack.name == "reconstruction/similarity-gram":
        return vector_scorers(run)
    if attack.name == "reconstruction/sent-models":
        return model_scorers(name="parameters", reference="parameters")
    if family == "cryptanalysis":
        return model_scorers(name="quantised", reference="vector")
    if isinstance(attack, PropertyInference):
        return property_scorers(attack, run)
    if attack.name == "inference/membership":
        # Its truth is made with its candidates: privaudit.campaigns.membership.
        return ()
    if family == "inference":
        return label_scorers(run)
    if family == "reidentification":
        return (("link accuracy", link_accuracy, "proportion"),)
    return ()
