"""Compilation of the kernels with numba (imported by the kernel modules only)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile ``function`` so that it releases the GIL, and cache the machine code if possible.

    Numba refuses ``cache=True`` with a RuntimeError when neither the folder of the source nor the
    user's cache folder is writable (a read-only installation without a home). The function is
    then compiled anew in every process, which is slower and gives the same results. Floating
    point stays strict (no ``fastmath``): distances must not depend on the vector width.
    """
    try:
        return cast(F, njit(nogil=True, cache=True)(function))
    except RuntimeError as error:
        if "cache" not in str(error):
            raise
        return cast(F, njit(nogil=True)(function))
