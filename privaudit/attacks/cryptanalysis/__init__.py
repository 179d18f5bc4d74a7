"""Cryptanalysis of PCSC, which hides numbers without a cryptographic assumption."""

from privaudit.attacks.cryptanalysis._unmask import Recovery
from privaudit.attacks.cryptanalysis.chain import RecoveredInversion
from privaudit.attacks.cryptanalysis.errors import InapplicableError, RecoveryFailedError
from privaudit.attacks.cryptanalysis.initiator import (
    Leak,
    Projection,
    read_response,
    recover_from_queries,
    recover_from_response,
)
from privaudit.attacks.cryptanalysis.lattice import recover_by_lattice
from privaudit.attacks.cryptanalysis.malicious import MaliciousChallenge, craft, extract, read
from privaudit.attacks.cryptanalysis.no_pads import recover_from_pair
from privaudit.attacks.cryptanalysis.passive import (
    LatticeReduction,
    NoPads,
    PadRatio,
    SecretModulus,
)
from privaudit.attacks.cryptanalysis.queries import HonestInitiator, MaliciousModulus
from privaudit.attacks.cryptanalysis.ratio import recover_from_pads
from privaudit.attacks.cryptanalysis.secret_modulus import (
    SignedRecovery,
    recover_without_modulus,
)

__all__ = [
    "HonestInitiator",
    "InapplicableError",
    "LatticeReduction",
    "Leak",
    "MaliciousChallenge",
    "MaliciousModulus",
    "NoPads",
    "PadRatio",
    "Projection",
    "RecoveredInversion",
    "Recovery",
    "RecoveryFailedError",
    "SecretModulus",
    "SignedRecovery",
    "craft",
    "extract",
    "read",
    "read_response",
    "recover_by_lattice",
    "recover_from_pads",
    "recover_from_pair",
    "recover_from_queries",
    "recover_from_response",
    "recover_without_modulus",
]
