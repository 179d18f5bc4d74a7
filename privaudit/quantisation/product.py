"""Product quantisation: one k-means codebook for each of several groups of columns.

Jegou, Douze and Schmid, *Product Quantization for Nearest Neighbor Search*, TPAMI 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.quantisation.kmeans import assign, lloyd

__all__ = ["Layout", "LayoutRule", "ProductQuantiser", "train_quantiser"]

LayoutRule: TypeAlias = Literal["contiguous", "equal", "permuted"]
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]

#: Codes are stored in two bytes at most.
MOST_CODEWORDS = 2**16
_FIRST_LOOK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which columns each subspace holds.

    Attributes
    ----------
    blocks : tuple of ndarray of int64
        Column positions of each subspace; together each column exactly once.

    Examples
    --------
    >>> [b.tolist() for b in Layout.of(5, 2).blocks]
    [[0, 1, 2], [3, 4]]
    """

    blocks: tuple[npt.NDArray[np.int64], ...]

    @classmethod
    def of(
        cls,
        columns: int,
        subspaces: int,
        *,
        rule: LayoutRule = "contiguous",
        rng: np.random.Generator | None = None,
    ) -> Layout:
        """Divide columns over subspaces.

        Parameters
        ----------
        columns, subspaces : int
        rule : {"contiguous", "equal", "permuted"}
            ``contiguous``: runs as even as possible, longer ones first (``numpy.array_split``).
            ``equal``: the same, refused unless the division leaves no remainder. ``permuted``:
            the columns are shuffled first.
        rng : numpy.random.Generator, optional
            Needed by ``permuted``.

        Raises
        ------
        ConfigurationError
            If there are more subspaces than columns, or ``equal`` leaves a remainder.
        """
        if not 1 <= subspaces <= columns:
            raise ConfigurationError(
                f"subspaces must be from 1 to the number of columns, {columns}; got {subspaces}"
            )
        if rule == "equal" and columns % subspaces:
            raise ConfigurationError(
                f"layout 'equal' needs columns divisible by subspaces; {columns} columns leave "
                f"{columns % subspaces} over {subspaces} subspaces: use layout 'contiguous'"
            )
        order = np.arange(columns, dtype=np.int64)
        if rule == "permuted":
            if rng is None:
                raise ConfigurationError("layout 'permuted' needs a generator")
            order = rng.permutation(order)
        return cls(tuple(np.array_split(order, subspaces)))

    @property
    def columns(self) -> int:
        """Number of columns."""
        return sum(len(block) for block in self.blocks)

    @property
    def subspace_of(self) -> npt.NDArray[np.int64]:
        """The subspace of each column."""
        result = np.empty(self.columns, dtype=np.int64)
        for subspace, block in enumerate(self.blocks):
            result[block] = subspace
        return result


@dataclass(frozen=True, slots=True, eq=False)
class ProductQuantiser:
    """Codebooks, one a subspace.

    Attributes
    ----------
    layout : Layout
    codebooks : tuple of ndarray of float32, shape (K_m, columns of subspace m)
    """

    layout: Layout
    codebooks: tuple[npt.NDArray[np.float32], ...]

    @property
    def codewords(self) -> tuple[int, ...]:
        """K_m of each subspace."""
        return tuple(len(centres) for centres in self.codebooks)

    def encode(self, features: npt.NDArray[np.floating]) -> Codes:
        """Return the nearest codeword of each row in each subspace.

        Parameters
        ----------
        features : ndarray of float, shape (n, columns)

        Returns
        -------
        ndarray of uint8 or uint16, shape (n, subspaces)
            uint8 where every code fits.
        """
        if features.ndim != 2 or features.shape[1] != self.layout.columns:
            raise InvalidDataError(
                f"features must have {self.layout.columns} columns, got shape {features.shape}"
            )
        small = max(self.codewords) <= 256
        codes = np.empty((len(features), len(self.codebooks)), np.uint8 if small else np.uint16)
        for m, (block, centres) in enumerate(zip(self.layout.blocks, self.codebooks, strict=True)):
            # The origin of the codebook is subtracted from both: see lloyd.
            origin = centres.mean(axis=0)
            part = _columns(features, block)
            codes[:, m] = assign(part - origin, centres - origin)
        return codes

    def decode(self, codes: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
        """Return the codewords of codes as rows of features; shape (n, columns)."""
        features = np.empty((len(codes), self.layout.columns), dtype=np.float32)
        for m, (block, centres) in enumerate(zip(self.layout.blocks, self.codebooks, strict=True)):
            features[:, block] = centres[codes[:, m]]
        return features


def train_quantiser(
    features: npt.NDArray[np.floating],
    layout: Layout,
    *,
    codewords: int,
    iterations: int = 20,
    points_per_codeword: int | None = 64,
    rng: np.random.Generator,
) -> ProductQuantiser:
    """Train a codebook a subspace by k-means.

    A subspace with fewer distinct rows than ``codewords`` gets its distinct rows as codewords,
    exactly; a constant one gets a single codeword.

    Parameters
    ----------
    features : ndarray of float, shape (n, columns)
    layout : Layout
    codewords : int
        K, from 1 to 65,536.
    iterations : int
    points_per_codeword : int or None
        At most ``codewords`` times this many rows are trained on, drawn anew for each subspace;
        None trains on all.
    rng : numpy.random.Generator

    Returns
    -------
    ProductQuantiser

    Raises
    ------
    ConfigurationError
        If K is out of range.
    InvalidDataError
        If the features do not fit the layout, are not finite, or hold no row.
    """
    if not 1 <= codewords <= MOST_CODEWORDS:
        raise ConfigurationError(f"codewords must be from 1 to {MOST_CODEWORDS}, got {codewords}")
    if features.ndim != 2 or features.shape[1] != layout.columns or len(features) == 0:
        raise InvalidDataError(
            f"features must have at least one row and {layout.columns} columns, got shape "
            f"{features.shape}"
        )
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise InvalidDataError(f"column {column} is not finite in row {row}")
    codebooks = []
    for block, stream in zip(layout.blocks, rng.spawn(len(layout.blocks)), strict=True):
        part = _columns(features, block)
        distinct = _distinct_below(part, codewords)
        if distinct is not None:
            codebooks.append(distinct)
            continue
        most = len(part) if points_per_codeword is None else codewords * points_per_codeword
        if len(part) > most:
            chosen = part[np.sort(stream.choice(len(part), size=most, replace=False))]
            # A sample of a column with few rare values may hold fewer distinct rows than the whole.
            if _distinct_below(chosen, codewords) is None:
                part = chosen
        codebooks.append(lloyd(part, codewords, iterations=iterations, rng=stream))
    return ProductQuantiser(layout, tuple(codebooks))


def _columns(
    features: npt.NDArray[np.floating], block: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Return columns as contiguous float32; adjacent ones through a slice, which is faster."""
    if np.array_equal(block, np.arange(block[0], block[0] + len(block))):
        return np.ascontiguousarray(features[:, block[0] : block[0] + len(block)], np.float32)
    return np.ascontiguousarray(features[:, block], dtype=np.float32)


def _distinct_below(
    points: npt.NDArray[np.float32], codewords: int
) -> npt.NDArray[np.float32] | None:
    """Return the distinct rows if there are at most ``codewords``, else None."""
    for rows in (points[: max(_FIRST_LOOK, 4 * codewords)], points):
        # Zero has two representations; adding zero makes them one, and bytes can be compared.
        plain = np.ascontiguousarray(rows + np.float32(0))
        keys = plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1]))).ravel()
        _, first = np.unique(keys, return_index=True)
        if len(first) > codewords:
            return None
    distinct = plain[np.sort(first)]
    return distinct[np.lexsort(distinct.T[::-1])]
