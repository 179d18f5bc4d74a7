"""Inner products under CKKS, approximate homomorphic encryption, with TenSEAL.

The holder of the secret key (`generate`) hands out the public half (`public`). A vector is
encrypted in blocks of N/2 values (`encrypt`). The inner product with a vector in the clear
(`times_plain`: the other client's part) or with another encrypted one (`times`: a server's) comes
back as one ciphertext, which `decrypt` opens. Encrypt unit vectors, so that it is a cosine.

TenSEAL is in the extra ``crypto``; it is loaded on first use. It draws its randomness itself, from
the operating system: ciphertexts and the last digits of results differ from run to run.

What it leaves open: whoever decrypts learns the inner products; decrypted CKKS values handed to
others give the key away unless noise is added (Li and Micciancio, EUROCRYPT 2021); and the noise of
a product with a vector in the clear depends on it (no circuit privacy).

Source: J. H. Cheon, A. Kim, M. Kim, Y. Song, "Homomorphic Encryption for Arithmetic of Approximate
Numbers", ASIACRYPT 2017. Lengths of moduli within the 128-bit security of
homomorphicencryption.org's standard: at most 218 bits for N = 8192, 438 for N = 16384.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError

__all__ = [
    "RING_DEGREES",
    "Context",
    "EncryptedVector",
    "decrypt",
    "encrypt",
    "generate",
    "public",
    "times",
    "times_plain",
]

#: Supported N; a ciphertext holds N/2 values.
RING_DEGREES: Final = (8192, 16384)
#: Lengths of the primes of the modulus: one multiplication.
MODULUS_BITS: Final = (60, 40, 40, 60)
#: Length of the factor that values are encoded with.
SCALE_BITS: Final = 40


def _tenseal() -> Any:
    try:
        return importlib.import_module("tenseal")
    except ImportError as error:
        raise ConfigurationError(
            "CKKS needs TenSEAL, which is not installed: pip install 'privaudit[crypto]'"
        ) from error


@dataclass(frozen=True, slots=True)
class Context:
    """Keys and parameters; `public` gives the half without the secret key.

    Attributes
    ----------
    ring_degree : int
        N.
    handle : tenseal.Context
        TenSEAL's own.
    """

    ring_degree: int
    handle: Any = field(repr=False)

    @property
    def slots(self) -> int:
        """Values in one ciphertext."""
        return self.ring_degree // 2

    @property
    def has_secret_key(self) -> bool:
        """Whether this context decrypts."""
        return bool(self.handle.has_secret_key())

    @property
    def public_nbytes(self) -> int:
        """Bytes of the public half on the wire: public, relinearisation and rotation keys."""
        return len(self.handle.serialize(save_secret_key=False))


@dataclass(frozen=True, slots=True)
class EncryptedVector:
    """A vector under CKKS.

    Attributes
    ----------
    dimension : int
        How many values are encrypted.
    slots : int
        Values in one ciphertext.
    ciphertexts : tuple of tenseal.CKKSVector
        One for each block; the last is padded with zeros.
    """

    dimension: int
    slots: int
    ciphertexts: tuple[Any, ...] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes on the wire."""
        return sum(len(block.serialize()) for block in self.ciphertexts)


def generate(ring_degree: int = 8192) -> Context:
    """Draw keys, the secret one among them.

    Parameters
    ----------
    ring_degree : {8192, 16384}
        N.

    Raises
    ------
    ConfigurationError
        If N is not supported, or TenSEAL is not installed.
    """
    if ring_degree not in RING_DEGREES:
        allowed = ", ".join(str(n) for n in RING_DEGREES)
        raise ConfigurationError(f"ring_degree: {ring_degree!r} is not one of {allowed}")
    tenseal = _tenseal()
    handle = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS,
        poly_modulus_degree=ring_degree,
        coeff_mod_bit_sizes=list(MODULUS_BITS),
    )
    handle.global_scale = 2**SCALE_BITS
    handle.generate_galois_keys()
    return Context(ring_degree, handle)


def public(context: Context) -> Context:
    """Return the context without its secret key, as another party gets it."""
    data = context.handle.serialize(save_secret_key=False)
    return Context(context.ring_degree, _tenseal().context_from(data))


def _blocks(vector: npt.ArrayLike, slots: int) -> npt.NDArray[np.float64]:
    """Return a checked vector as rows of ``slots`` values, the last padded with zeros."""
    values = np.asarray(vector)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "fiu":
        raise InvalidDataError(
            "CKKS encrypts vectors of shape (d,), d >= 1, of real numbers; this one has shape"
            f" {values.shape} and dtype {values.dtype}"
        )
    values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        raise InvalidDataError("CKKS encrypts finite values; this vector holds NaN or infinity")
    rows: npt.NDArray[np.float64] = np.pad(values, (0, -values.size % slots)).reshape(-1, slots)
    return rows


def encrypt(vector: npt.ArrayLike, context: Context) -> EncryptedVector:
    """Encrypt a vector; the public half of the keys is enough.

    Parameters
    ----------
    vector : array_like of float, shape (d,)
        Finite. Divide by the norm first: values far above 1 leave the modulus.
    context : Context
        Keys.

    Raises
    ------
    InvalidDataError
        If the vector has another shape, or is not finite.
    """
    rows = _blocks(vector, context.slots)
    encrypted = tuple(_tenseal().ckks_vector(context.handle, row) for row in rows)
    return EncryptedVector(np.asarray(vector).size, context.slots, encrypted)


def _inner_product(
    encrypted: EncryptedVector, multiply: Callable[[int, Any], Any]
) -> EncryptedVector:
    total = multiply(0, encrypted.ciphertexts[0])
    for index, block in enumerate(encrypted.ciphertexts[1:], start=1):
        total += multiply(index, block)
    return EncryptedVector(1, encrypted.slots, (total.sum(),))


def times_plain(encrypted: EncryptedVector, vector: npt.ArrayLike) -> EncryptedVector:
    """Return the encrypted inner product with a vector in the clear.

    Raises
    ------
    InvalidDataError
        If the vector is not usable, or the dimensions differ.
    """
    rows = _blocks(vector, encrypted.slots)
    _same_dimension(encrypted.dimension, np.asarray(vector).size)
    return _inner_product(encrypted, lambda index, block: block.mul(rows[index]))


def times(first: EncryptedVector, second: EncryptedVector) -> EncryptedVector:
    """Return the encrypted inner product of two vectors encrypted under the same key.

    Raises
    ------
    InvalidDataError
        If the dimensions differ.
    """
    _same_dimension(first.dimension, second.dimension)
    others = second.ciphertexts
    return _inner_product(first, lambda index, block: block.mul(others[index]))


def _same_dimension(first: int, second: int) -> None:
    if first != second:
        raise InvalidDataError(
            f"an inner product is of vectors of one dimension; these have {first} and {second}"
        )


def decrypt(encrypted: EncryptedVector, context: Context) -> npt.NDArray[np.float64]:
    """Return the values, shape (d,); (1,) for an inner product.

    The party that computed held the public half: its ciphertexts are read again under this
    context, as they would be from the wire.

    Raises
    ------
    ConfigurationError
        If the context has no secret key.
    """
    if not context.has_secret_key:
        raise ConfigurationError("this context is the public half: it has no key to decrypt with")
    tenseal = _tenseal()
    values: list[float] = []
    for block in encrypted.ciphertexts:
        own = tenseal.ckks_vector_from(context.handle, block.serialize())
        values.extend(own.decrypt())
    return np.array(values[: encrypted.dimension])
