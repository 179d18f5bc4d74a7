"""PCSC with one key for all clients: the server multiplies ciphertexts, a key helper decodes.

No scheme of the literature: it is what "the server computes the similarity of E(w_u) and E(w_v)"
comes to when PCSC is the encryption. All clients encrypt under the same p, alpha, and s
(`privaudit.secure_computation.pcsc.encrypt`). Then

* P_uv = sum_i C_u,i C_v,i mod p, computed by the server, is s^2 (alpha^2 a_u . a_v + noise), and
  the helper, who holds s, gets a_u . a_v = round(centred(P_uv / s^2) / alpha^2). With u = v it gets
  squared norms, so the whole Gram matrix.
* sum_u C_u mod p is s (alpha sum_u a_u + sum_u c_u): an additive homomorphism.

The server that recovers s once (docs/secure-computation.md) reads every vector under the key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.secure_computation import _digits, _pcsc_sizes
from privaudit.secure_computation.integers import (
    Bytes,
    blocks,
    byte_width,
    decode,
    inverse,
    multiply_modulo,
)
from privaudit.secure_computation.pcsc import PADS, Keys, Parameters, centred, round_quotient

__all__ = ["add", "check", "check_sum", "decode_product", "decode_sum", "product"]


def check(parameters: Parameters, *, dimension: int, largest: int) -> None:
    """Refuse sizes with which some product of two ciphertexts would not decode.

    The noise of P_uv is alpha (a_u . c_v + a_v . c_u) + c_u . c_v, that of PCSC with the
    responder's noise as long as the initiator's: `privaudit.secure_computation.pcsc.check` with k4
    equal to k3.

    Raises
    ------
    ConfigurationError
        If an inequality fails.
    """
    same = Parameters(
        parameters.modulus_bits,
        parameters.scale_bits,
        parameters.noise_bits,
        parameters.noise_bits,
    )
    _pcsc_sizes.check(same, dimension=dimension, largest=largest)


def check_sum(parameters: Parameters, *, clients: int, largest: int) -> None:
    """Refuse sizes with which some sum of ciphertexts would not decode.

    For N clients: N 2^k3 <= alpha (the noise stays below one unit), and
    2 (N Q + 1) alpha < p (the range).

    Raises
    ------
    ConfigurationError
        If an inequality fails; the message says which one.
    """
    if clients < 1 or largest < 1:
        raise ConfigurationError(
            f"a sum needs at least 1 client and a positive bound; {clients} and {largest} given"
        )
    if clients << parameters.noise_bits > 1 << (parameters.scale_bits - 1):
        raise ConfigurationError(
            f"the sum of {clients} ciphertexts does not decode: N 2^k3 <= alpha fails with k3 ="
            f" {parameters.noise_bits} and k2 = {parameters.scale_bits}; scale_bits (k2)"
            f" {parameters.noise_bits + 1 + (clients - 1).bit_length()} would do"
        )
    size = 2 * (clients * largest + 1) << parameters.scale_bits
    if size >= 1 << (parameters.modulus_bits - 1):
        raise ConfigurationError(
            f"the sum of {clients} ciphertexts does not decode: 2 (N Q + 1) alpha < p fails with"
            f" Q = {largest}, k2 = {parameters.scale_bits}, k1 = {parameters.modulus_bits};"
            f" modulus_bits (k1) {size.bit_length() + 1} would do"
        )


def product(first: Bytes, second: Bytes, *, modulus: int) -> int:
    """Return P_uv = sum_i C_u,i C_v,i mod p: the server's part, without any key.

    Parameters
    ----------
    first, second : ndarray of uint8, shape (n + 2, width)
        Ciphertexts of two clients under one key; the same array twice for a squared norm.
    modulus : int
        p.

    Raises
    ------
    InvalidDataError
        If the shapes differ.
    """
    if first.shape != second.shape:
        raise InvalidDataError(
            f"ciphertexts of shapes {first.shape} and {second.shape} do not multiply: the vectors"
            " have different lengths, or the keys differ"
        )
    return _digits.inner_product(first, second) % modulus


def decode_product(value: int, keys: Keys) -> int:
    """Return a_u . a_v from P_uv: the key helper's part.

    Raises
    ------
    InvalidDataError
        If ``value`` is not in [0, p).
    """
    if not 0 <= value < keys.modulus:
        raise InvalidDataError("a product of ciphertexts is not in [0, p)")
    unmasked = value * inverse(keys.secret**2, keys.modulus)
    return round_quotient(centred(unmasked, keys.modulus), keys.scale**2)


def add(ciphertexts: Sequence[Bytes], *, modulus: int) -> Bytes:
    """Return sum_u C_u mod p, the ciphertext of the sum: the server's part, without any key.

    Parameters
    ----------
    ciphertexts : sequence of ndarray of uint8, shape (n + 2, width)
        Of the clients, under one key.
    modulus : int
        p.

    Returns
    -------
    ndarray of uint8, shape (n + 2, width)

    Raises
    ------
    InvalidDataError
        If there are none, more than 2^16, or the shapes differ.
    """
    shapes = {array.shape for array in ciphertexts}
    if len(shapes) != 1 or len(ciphertexts) > _digits.SUMMANDS:
        raise InvalidDataError(
            f"ciphertexts of one shape, at most {_digits.SUMMANDS} of them, are added; these are"
            f" {len(ciphertexts)} of the shapes {sorted(shapes)}"
        )
    (shape,) = shapes
    result = np.empty((shape[0], byte_width(modulus.bit_length())), dtype=np.uint8)
    for rows in blocks(shape[0]):
        sums = _digits.add([array[rows] for array in ciphertexts])
        result[rows] = multiply_modulo(sums, 1, modulus)
    return result


def decode_sum(ciphertexts: Bytes, keys: Keys) -> npt.NDArray[np.int64]:
    """Return sum_u a_u, shape (n,), from what `add` returned: the key helper's part.

    With x = centred(C / s), the sum is the floor of x / alpha: the noise is positive. One
    ciphertext decodes to its own vector.

    Raises
    ------
    InvalidDataError
        If an element does not fit 64 bits, as under a wrong key.
    """
    p, alpha = keys.modulus, keys.scale
    keyless = multiply_modulo(ciphertexts, inverse(keys.secret, p), p)[:-PADS]
    result = np.empty(len(keyless), dtype=np.int64)
    for rows in blocks(len(result)):
        values = [(x - p if 2 * x > p else x) // alpha for x in decode(keyless[rows])]
        if any(not -(1 << 63) <= value < 1 << 63 for value in values):
            raise InvalidDataError(
                "an element of the decoded sum needs more than 64 bits: the ciphertexts are not"
                " under this key, or the sizes do not fit (see check_sum)"
            )
        result[rows] = values
    return result
