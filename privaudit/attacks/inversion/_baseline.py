"""What can be guessed without any message: the prior alone."""

from __future__ import annotations

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inversion._observations import declared_model
from privaudit.transcript import Capability, View

__all__ = ["prior_guesses"]


def prior_guesses(
    view: View, users: tuple[str, ...], *, knowledge: Knowledge, attack: str
) -> Guesses:
    """Guess the mean auxiliary image, or mid-grey without auxiliary data, for every user.

    The mean is the guess of least expected squared error that does not look at a message.
    """
    spec, _ = declared_model(knowledge, attack=attack)
    granted = Capability.AUXILIARY_DATA in view.capabilities
    if granted and knowledge.auxiliary is not None and len(knowledge.auxiliary):
        image = knowledge.auxiliary.images.mean(0, dtype=np.float64).astype(np.float32)
    else:
        image = np.full(spec.input_shape, 0.5, np.float32)
    return Guesses(
        target_ids=users,
        values=tuple(image.copy() for _ in users),
        scores=np.zeros(len(users)),
    )
