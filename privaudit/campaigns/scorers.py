"""Which scores fit which attack."""

from __future__ import annotations

from functools import partial

import numpy as np

from privaudit.attacks.base import Attack
from privaudit.campaigns.cells import Scorer
from privaudit.campaigns.records import record_scorers
from privaudit.campaigns.runs import RecordedRun
from privaudit.scoring.labels import dominant_label, label_accuracy, label_overlap
from privaudit.scoring.linking import link_accuracy
from privaudit.scoring.reconstruction import identification, psnr, ssim
from privaudit.scoring.recovered import all_exact, exact_fraction, relative_error
from privaudit.scoring.vectors import cosine_beyond, vector_cosine

__all__ = [
    "Named",
    "image_scorers",
    "label_scorers",
    "model_scorers",
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
    if family == "inversion" or attack.name == "cryptanalysis/pcsc-inversion":
        return image_scorers(run)
    if attack.name == "reconstruction/similarity-gram":
        return vector_scorers(run)
    if attack.name == "reconstruction/sent-models":
        return model_scorers(name="parameters", reference="parameters")
    if family == "cryptanalysis":
        return model_scorers(name="quantised", reference="vector")
    if family == "inference":
        return label_scorers(run)
    if family == "reidentification":
        return (("link accuracy", link_accuracy, "proportion"),)
    return ()
