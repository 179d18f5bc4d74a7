"""Why a cryptanalysis could not be done, or did not succeed."""

from __future__ import annotations

from privaudit.errors import PrivauditError, UnmetRequirementsError

__all__ = ["InapplicableError", "RecoveryFailedError"]


class InapplicableError(UnmetRequirementsError):
    """The sizes of the numbers, or what the view holds, put the attack out of reach."""


class RecoveryFailedError(PrivauditError):
    """The attack ran, and what it found contradicts how the ciphertexts are made."""
