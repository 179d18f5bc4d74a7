"""Attacks that read a client's vector off the ciphertexts that it sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.cryptanalysis._unmask import Recovery
from privaudit.attacks.cryptanalysis._views import (
    CIPHERTEXTS,
    Seen,
    baseline_guesses,
    challenges,
    guesses_of,
)
from privaudit.attacks.cryptanalysis.errors import RecoveryFailedError
from privaudit.attacks.cryptanalysis.lattice import LARGEST_DIMENSION, recover_by_lattice
from privaudit.attacks.cryptanalysis.no_pads import recover_from_pair
from privaudit.attacks.cryptanalysis.ratio import recover_from_pads
from privaudit.attacks.cryptanalysis.secret_modulus import recover_without_modulus
from privaudit.errors import ConfigurationError
from privaudit.transcript import Array, Capability, View

__all__ = ["LatticeReduction", "NoPads", "PadRatio", "SecretModulus"]

Outcome = tuple[Array, float, dict[str, float]]


def _outcome(recovery: Recovery, *, length: int) -> Outcome:
    numbers = {
        "surplus-bits": recovery.surplus_bits,
        "noise-bits": float(recovery.noise_bits),
        "common-factor": float(recovery.common_factor),
    }
    return recovery.values[:length], recovery.surplus_bits, numbers


def _prior(view: View, *, attack: str) -> Guesses:
    seen = challenges(view, attack=attack)
    return baseline_guesses(view, [(s.target, s.initiator, s.round, s.length) for s in seen])


def _run(seen: Seen, recovery: Recovery) -> Outcome:
    return _outcome(recovery, length=seen.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class PadRatio:
    """Read clients' vectors off PCSC ciphertexts: the ratio of the zero pads gives the key.

    PCSC (Lu, Zhu, Liu, Liu, Shao, IEEE Network 28(4), 2014) sends ``C_i = s (a_i alpha + c_i) mod
    p`` with a secret s, and pads the vector with two zeros. The pads' ratio ``C_{n+1} / C_{n+2} =
    c_{n+1} / c_{n+2} mod p`` does not contain s; both terms are short, so that the extended
    Euclidean algorithm finds them, and then s and everything else follow by division: the vector
    is known exactly, as the integers that it was quantised to, up to the real scale, which does
    not travel. Whoever sees the ciphertexts can do it: a server in the variants relay and
    shared_key, a responder in pairwise and relay. It works for every choice of sizes with which
    the protocol decodes (theorem and proof: docs/attacks/cryptanalysis.md). To our knowledge
    this attack on this form of the scheme is ours.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-ratio"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = CIPHERTEXTS

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Recover the vector of every client outside the coalition that sent ciphertexts.

        Returns
        -------
        Guesses
            Targets ``"client/round-t"``; values int64 (n,), the quantised vector; scores the bits
            by which the ratio is longer than chance explains.

        Raises
        ------
        UnmetRequirementsError
            If the coalition saw no ciphertexts.
        InvalidDataError
            If a message is malformed.
        """

        def recover(seen: Seen) -> Outcome:
            return _run(seen, recover_from_pads(seen.modulus, seen.scale, seen.ciphertexts))

        return guesses_of(challenges(view, attack=self.name), recover)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the model that the client was sent at the beginning of the round, quantised."""
        return _prior(view, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPads:
    """Read every client's vector off its ciphertexts without using the zero pads.

    As pcsc-ratio, from the ratio of two ordinary coordinates, which is unique if ``p > 2
    abs(x_i x_j)``. It shows that leaving out the pads would not mend the scheme.

    Attributes
    ----------
    pairs : int
        Pairs of coordinates tried, one after the other.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-no-pads"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = CIPHERTEXTS

    pairs: int = 8

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ConfigurationError(f"pairs must be at least 1, got {self.pairs}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Recover the vector of every client; as :meth:`PadRatio.run`."""

        def recover(seen: Seen) -> Outcome:
            own = seen.ciphertexts[:-2]
            for attempt in range(self.pairs):
                pair = (2 * attempt, 2 * attempt + 1)
                last = attempt == self.pairs - 1 or pair[1] + 2 >= len(own)
                try:
                    return _run(seen, recover_from_pair(seen.modulus, seen.scale, own, pair=pair))
                except RecoveryFailedError:
                    if last:
                        raise
            raise AssertionError("unreachable")

        return guesses_of(challenges(view, attack=self.name), recover)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the model that the client was sent at the beginning of the round, quantised."""
        return _prior(view, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatticeReduction:
    """Read every client's vector off its ciphertexts by LLL on several coordinates.

    For sizes with which plaintexts are longer than half the modulus, so that the ratio of two is
    not unique (nor do products decode). Needs python-flint (extra ``crypto``).

    Attributes
    ----------
    value_bits, noise_bits : int
        Public parameters: bits of a quantised value, and k3.
    coordinates : int or None
        Dimension of the lattice; None for the least that should do.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-lattice"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = CIPHERTEXTS

    value_bits: int = 16
    noise_bits: int = 128
    coordinates: int | None = None

    def __post_init__(self) -> None:
        if self.value_bits < 2 or self.noise_bits < 1:
            raise ConfigurationError(
                f"value_bits must be at least 2 and noise_bits at least 1, got {self.value_bits} "
                f"and {self.noise_bits}"
            )
        if self.coordinates is not None and not 2 <= self.coordinates <= LARGEST_DIMENSION:
            raise ConfigurationError(
                f"coordinates must lie in [2, {LARGEST_DIMENSION}], got {self.coordinates}"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Recover the vector of every client; as :meth:`PadRatio.run`.

        Raises
        ------
        UnmetRequirementsError
            Also if python-flint is not installed.
        """

        def recover(seen: Seen) -> Outcome:
            found = recover_by_lattice(
                seen.modulus,
                seen.scale,
                seen.ciphertexts,
                value_bits=self.value_bits,
                noise_bits=self.noise_bits,
                coordinates=self.coordinates,
            )
            return _run(seen, found)

        return guesses_of(challenges(view, attack=self.name), recover)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the model that the client was sent at the beginning of the round, quantised."""
        return _prior(view, attack=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretModulus:
    """Read every client's vector off alpha and its ciphertexts, without the modulus.

    A responder does not need p to answer with integers, so that p might be kept secret; the attack
    ignores it. Two lattice reductions find the vector up to sign, and that all noise is positive
    tells the sign. Needs python-flint (extra ``crypto``).

    Attributes
    ----------
    coordinates : int
        Dimension of the lattices.
    """

    name: ClassVar[str] = "cryptanalysis/pcsc-secret-modulus"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "reconstruction"
    requires: ClassVar[frozenset[Capability]] = frozenset()
    reads: ClassVar[tuple[str, ...]] = CIPHERTEXTS

    coordinates: int = 12

    def __post_init__(self) -> None:
        if not 6 <= self.coordinates <= LARGEST_DIMENSION:
            raise ConfigurationError(
                f"coordinates must lie in [6, {LARGEST_DIMENSION}], got {self.coordinates}"
            )

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Recover the vector of every client; as :meth:`PadRatio.run`.

        The score is by how much the sign that was not chosen is less likely: about 1 is a toss-up.
        """

        def recover(seen: Seen) -> Outcome:
            found = recover_without_modulus(
                seen.scale, seen.ciphertexts, coordinates=self.coordinates
            )
            ratio = min(found.sign_ratio, 1e300)
            return found.values[: seen.length], ratio, {"sign-ratio": ratio}

        return guesses_of(challenges(view, attack=self.name), recover)

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the model that the client was sent at the beginning of the round, quantised."""
        return _prior(view, attack=self.name)
