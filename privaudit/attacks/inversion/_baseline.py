"""What can be guessed without any message: the prior alone."""

from __future__ import annotations

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._observations import declared_model
from privaudit.attacks.inversion._records import RecordOptions, record_counts
from privaudit.transcript import Capability, View

__all__ = ["prior_guesses"]


def prior_guesses(
    view: View,
    users: tuple[str, ...],
    *,
    knowledge: Knowledge,
    options: RecordOptions,
    attack: str,
) -> Guesses:
    """Guess the mean auxiliary image, or mid-grey without auxiliary data, for every record.

    The mean is the guess of least expected squared error that does not look at a message.
    """
    spec, _ = declared_model(knowledge, attack=attack)
    counts = record_counts(view, users, options=options, attack=attack)
    granted = Capability.AUXILIARY_DATA in view.capabilities
    if granted and knowledge.auxiliary is not None and len(knowledge.auxiliary):
        image = knowledge.auxiliary.images.mean(0, dtype=np.float64).astype(np.float32)
    else:
        image = np.full(spec.input_shape, 0.5, np.float32)
    return Guesses(
        target_ids=users,
        values=tuple(
            image.copy() if count == 1 else np.tile(image, (count, 1, 1, 1)) for count in counts
        ),
        scores=np.zeros(len(users)),
    )
