"""An initiator that chooses its challenge badly on purpose reads the responder's vector.

The responder checks nothing of what it gets. With ``C = (1, M, M^2, ..., 0, ...)`` its response is
``sum M^j alpha b_j``: the values side by side, as digits of base M. With a modulus of about 512
bits two of them fit into one run; with a modulus of 220 bits a coordinate, all of them do.
A responder that checks length and primality of the modulus still loses two coordinates a run, and
``blind`` hides the form of the challenge behind a random factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.cryptanalysis._numbers import centred, round_divide
from privaudit.attacks.cryptanalysis.errors import InapplicableError
from privaudit.errors import ConfigurationError
from privaudit.secure_computation.integers import Bytes, decode, encode, inverse

__all__ = ["MaliciousChallenge", "craft", "extract", "read", "recognised"]

#: Bits of alpha: more than the responder's r_i have, so that a zero value is told from others.
SCALE_BITS = 200
#: Bits a coordinate takes in the response: alpha, the value, and a sign.
SLOT_BITS = 220


@dataclass(frozen=True, slots=True, eq=False)
class MaliciousChallenge:
    """A challenge that makes the response an enumeration of some coordinates.

    Attributes
    ----------
    modulus, scale : int
    ciphertexts : ndarray of uint8, shape (n + 2, width)
    positions : tuple of int
        The coordinates that the response will hold, lowest digit first.
    blind : int
        Factor of all ciphertexts.
    """

    modulus: int
    scale: int
    ciphertexts: Bytes
    positions: tuple[int, ...]
    blind: int


def craft(
    dimension: int, *, modulus: int, positions: tuple[int, ...] | None = None, blind: int = 1
) -> MaliciousChallenge:
    """Make a challenge of the form that the responder expects.

    Parameters
    ----------
    dimension : int
        Length n of the responder's vector.
    modulus : int
        Any modulus; ``SLOT_BITS`` bits a coordinate are used. It may be prime and of the usual
        length, or, as the responder checks nothing, as long as the vector needs.
    positions : tuple of int, optional
        The coordinates to read, ascending; None for as many of the first as the modulus holds.
    blind : int
        A unit modulo the modulus, by which all ciphertexts are multiplied.

    Raises
    ------
    ConfigurationError
        If a position does not exist or the modulus is too short for them.
    """
    room = (modulus.bit_length() - 2) // SLOT_BITS
    chosen = tuple(range(min(dimension, room))) if positions is None else positions
    if not chosen or len(chosen) > room or len(set(chosen)) != len(chosen):
        raise ConfigurationError(
            f"a modulus of {modulus.bit_length()} bits holds {room} distinct coordinates of "
            f"{SLOT_BITS} bits, asked for {len(chosen)}"
        )
    if chosen != tuple(sorted(chosen)) or chosen[0] < 0 or chosen[-1] >= dimension:
        raise ConfigurationError(f"positions must ascend in [0, {dimension}), got {chosen}")
    plain = [0] * (dimension + 2)
    for digit, position in enumerate(chosen):
        plain[position] = blind << (SLOT_BITS * digit)
    width = (modulus.bit_length() + 7) // 8
    ciphertexts = encode((c % modulus for c in plain), width=width)
    return MaliciousChallenge(modulus, (1 << SCALE_BITS) - 75, ciphertexts, chosen, blind)


def recognised(modulus: int, scale: int, ciphertexts: Bytes) -> MaliciousChallenge | None:
    """Return a challenge that was made by :func:`craft`, or None for one that was not.

    The non-zero ciphertexts must be ``blind M^j``, j = 0, 1, ..., in the order of the coordinates.
    """
    positions = tuple(int(i) for i in np.flatnonzero(ciphertexts.any(axis=1)))
    room = (modulus.bit_length() - 2) // SLOT_BITS
    if not 0 < len(positions) <= room or positions[-1] >= len(ciphertexts) - 2:
        return None
    values = decode(ciphertexts[list(positions)])
    blind = values[0]
    if any(v != (blind << (SLOT_BITS * j)) % modulus for j, v in enumerate(values)):
        return None
    return MaliciousChallenge(modulus, scale, ciphertexts, positions, blind)


def read(challenge: MaliciousChallenge, response: int) -> dict[int, int]:
    """Return the responder's value at each of the challenge's positions.

    A value of zero comes back as its random mask r_i < alpha / 2, which rounds to zero.
    """
    rest = centred(response * inverse(challenge.blind, challenge.modulus), challenge.modulus)
    found = {}
    for position in challenge.positions:
        digit = centred(rest, 1 << SLOT_BITS)
        found[position] = round_divide(digit, challenge.scale)
        rest = (rest - digit) >> SLOT_BITS
    return found


def extract(
    respond: Callable[[MaliciousChallenge], int], dimension: int, *, modulus: int, runs: int
) -> npt.NDArray[np.float64]:
    """Play the malicious initiator for some runs against a responder.

    Parameters
    ----------
    respond : callable
        The responder: takes a challenge, returns D.
    dimension, modulus : int
        As :func:`craft`.
    runs : int
        Runs to play, each for the next coordinates.

    Returns
    -------
    ndarray of float64, shape (dimension,)
        NaN where nothing was learned.

    Raises
    ------
    InapplicableError
        If no run is allowed.
    """
    if runs < 1:
        raise InapplicableError("the attack is active: it needs a run in which it may deviate")
    values = np.full(dimension, np.nan)
    room = (modulus.bit_length() - 2) // SLOT_BITS
    for start in range(0, min(dimension, runs * room), max(room, 1)):
        positions = tuple(range(start, min(start + room, dimension)))
        challenge = craft(dimension, modulus=modulus, positions=positions)
        for position, value in read(challenge, respond(challenge)).items():
            values[position] = value
    return values
