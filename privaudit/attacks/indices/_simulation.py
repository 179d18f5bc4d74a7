"""The protocol's public steps on the adversary's own records, aligned with what was observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.indices._alignment import align_signs, correlations, normalised
from privaudit.attacks.indices._codes import Columns, relabelled
from privaudit.attacks.indices._observations import ObservedIndices
from privaudit.errors import ConfigurationError
from privaudit.quantisation import (
    SCALINGS,
    Layout,
    ProductQuantiser,
    classical_mds,
    scaled_table,
    smacof,
    train_quantiser,
)
from privaudit.transcript import View

__all__ = ["AlignedSample", "PublicSteps", "align", "quantise"]

Table = npt.NDArray[np.float64]

#: Most auxiliary records that are used: more cost time and change the codebooks little.
LARGEST_SAMPLE = 5000
_QUANTILES = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, slots=True)
class PublicSteps:
    """How indices come about, as the run makes public; what it does not say is as in the paper."""

    mds: str
    scaling: str
    standardize: bool
    weighted: bool

    @classmethod
    def of(cls, view: View) -> PublicSteps:
        """Read the public ``configuration`` of a run.

        Raises
        ------
        ConfigurationError
            If it names a step that is not known.
        """
        public = view.public.get("configuration")
        values: Mapping[str, object] = public if isinstance(public, Mapping) else {}
        mds, scaling = values.get("mds", "classical"), values.get("scaling", "raw")
        if mds not in ("classical", "smacof") or scaling not in SCALINGS:
            raise ConfigurationError(
                f"public 'configuration': mds {mds!r} must be 'classical' or 'smacof' and scaling "
                f"{scaling!r} one of {', '.join(SCALINGS)}"
            )
        return cls(
            str(mds), str(scaling), bool(values.get("standardize")), bool(values.get("weighted"))
        )


@dataclass(frozen=True, slots=True, eq=False)
class AlignedSample:
    """The adversary's own records, and the indices that they would have in the attacked run.

    Attributes
    ----------
    records : ndarray of float64, shape (records, columns)
    indices : ndarray of float64, shape (records, index columns)
        In the signs of the attacked run, and with its marginals.
    reliability : ndarray of float64, shape (index columns,)
        How well each column's correlations with the others agree with the attacked run's, in
        [0, 1]: low where the own codebook ended with another axis.
    agreement : float
        Correlation of the two runs' correlations between columns; 1 for the same population.
    """

    records: Table
    indices: Table
    reliability: Table
    agreement: float


def quantise(
    records: Table, layout: Sequence[Columns], codewords: Sequence[int], *, rng: np.random.Generator
) -> tuple[ProductQuantiser, npt.NDArray[np.integer]]:
    """Train one codebook a subspace; return them with the codes of the records."""
    books = []
    codes = []
    for columns, k in zip(layout, codewords, strict=True):
        part = records[:, columns]
        own = train_quantiser(part, Layout.of(len(columns), 1), codewords=k, rng=rng)
        books.append(own.codebooks[0])
        codes.append(own.encode(part)[:, 0])
    # Positions within the layout's own columns, side by side.
    ends = np.cumsum([len(c) for c in layout])
    blocks = tuple(np.arange(e - len(c), e) for e, c in zip(ends, layout, strict=True))
    return ProductQuantiser(Layout(blocks), tuple(books)), np.stack(codes, axis=1)


def align(
    view: View,
    observed: ObservedIndices,
    layout: Sequence[Columns],
    auxiliary: Table,
    *,
    rng: np.random.Generator,
    runs: int = 5,
) -> AlignedSample:
    """Run the public steps on auxiliary records, and give the result the attacked run's signs.

    Codebooks end in different local optima, of which some have other axes than the attacked run's.
    So the steps are run several times; the run whose columns correlate most like the observed ones
    is taken, and then single subspaces of other runs that fit better. Last, each column is mapped
    monotonically so that its quantiles are those observed: it is the same quantity, of the same
    population.

    Raises
    ------
    ConfigurationError
        If the run's public parameters name unknown steps.
    """
    steps = PublicSteps.of(view)
    records = auxiliary
    if len(records) > LARGEST_SAMPLE:
        records = records[np.sort(rng.choice(len(records), LARGEST_SAMPLE, replace=False))]
    inputs = records
    if steps.standardize:
        spread = records.std(axis=0)
        inputs = (records - records.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    levels = [relabelled(observed.indices[:, columns])[1] for columns in observed.subspaces]
    sizes = [len(level) for level in levels]
    wanted = correlations(observed.indices)
    simulated = []
    for _ in range(runs):
        own = _simulate(observed, layout, inputs, sizes, steps, rng=rng)
        simulated.append(own * align_signs(observed.indices, own, rng=rng))
    apart = [float(((correlations(own) - wanted) ** 2).sum()) for own in simulated]
    best = simulated[int(np.argmin(apart))].copy()
    for _ in range(2):
        for columns in observed.subspaces:
            _replace_if_nearer(best, columns, simulated, wanted)
    found = correlations(best)
    upper = np.triu_indices(len(wanted), 1)
    return AlignedSample(
        records=records,
        indices=_with_marginals(best, observed.indices),
        reliability=_reliability(wanted, found),
        agreement=_correlation(wanted[upper], found[upper]),
    )


def _with_marginals(table: Table, like: Table) -> Table:
    result = np.empty_like(table)
    for j, (column, wanted) in enumerate(zip(table.T, like.T, strict=True)):
        levels, first = np.unique(np.quantile(column, _QUANTILES), return_index=True)
        result[:, j] = np.interp(column, levels, np.quantile(wanted, _QUANTILES)[first])
    return result


def _replace_if_nearer(
    best: Table, columns: Columns, others: Sequence[Table], wanted: Table
) -> None:
    """Take the columns of the run, in the sign, that correlate with the rest most as wanted."""
    rest = np.setdiff1d(np.arange(best.shape[1]), columns)
    if not rest.size:
        return
    scaled = normalised(best[:, rest])
    current = best[:, columns]
    choices = [current, *(own[:, columns] * sign for own in others for sign in (1.0, -1.0))]
    apart = [
        float(((normalised(choice).T @ scaled - wanted[np.ix_(columns, rest)]) ** 2).sum())
        for choice in choices
    ]
    best[:, columns] = choices[int(np.argmin(apart))]


def _simulate(
    observed: ObservedIndices,
    layout: Sequence[Columns],
    inputs: Table,
    sizes: Sequence[int],
    steps: PublicSteps,
    *,
    rng: np.random.Generator,
) -> Table:
    quantiser, codes = quantise(inputs, layout, sizes, rng=rng)
    simulated = np.zeros((len(inputs), observed.indices.shape[1]))
    for owner in dict.fromkeys(observed.owners):
        mine = [m for m, other in enumerate(observed.owners) if other == owner]
        width = len(observed.subspaces[mine[0]])
        embeddings = tuple(_embed(quantiser.codebooks[m], codes[:, m], width, steps) for m in mine)
        upload = scaled_table(
            embeddings,
            codes[:, mine],
            codewords=max(len(e) for e in embeddings),
            scaling=steps.scaling,  # type: ignore[arg-type]  # checked by PublicSteps.of
        )
        simulated[:, np.concatenate([observed.subspaces[m] for m in mine])] = upload.dense()
    return simulated


def _embed(
    codebook: npt.NDArray[np.float32],
    codes: npt.NDArray[np.integer],
    width: int,
    steps: PublicSteps,
) -> Table:
    # A sample of few distinct sub-records allows fewer dimensions than the attacked run's.
    possible = min(width, max(1, len(codebook) - 1))
    result = np.zeros((len(codebook), width))
    if steps.mds == "smacof":
        result[:, :possible] = smacof(codebook, possible)
    else:
        counts = np.bincount(codes, minlength=len(codebook)).astype(np.float64)
        weights = counts if steps.weighted else None
        result[:, :possible] = classical_mds(codebook, possible, weights=weights)
    return result


def _reliability(wanted: Table, found: Table) -> Table:
    if len(wanted) < 3:
        # Two columns have one correlation between them, which tells nothing of either.
        return np.ones(len(wanted))
    rows = range(len(wanted))
    each = [_correlation(np.delete(wanted[j], j), np.delete(found[j], j)) for j in rows]
    return np.maximum(each, 0.0)


def _correlation(a: Table, b: Table) -> float:
    """Return the correlation of two lists of numbers, 0 where one does not vary."""
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
