"""Rows of epsilon tables: each a point of a grid of parameters, with its bounds. Data only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from privaudit.accounting._methods import (
    METHODS,
    Method,
    MethodBound,
    check_methods,
    method_bound,
)
from privaudit.accounting.bracket import Bracket, agreeing_lower
from privaudit.accounting.budget import BudgetRow
from privaudit.accounting.certificate import certify
from privaudit.accounting.coordinate import coordinate_brackets
from privaudit.accounting.rounds import compose_coordinate
from privaudit.accounting.vector import (
    ShuffledVector,
    compose_theorem2,
    compose_vectors,
)

__all__ = [
    "METHODS",
    "Cell",
    "EpsilonRow",
    "Method",
    "MethodBound",
    "budget_record",
    "check_methods",
    "coordinate_rows",
    "record",
    "vector_rows",
]

#: Rows of one block, computed together; fewer than the second number are computed one by one.
_BLOCK: Final = 250
_WORTH: Final = 24


@dataclass(frozen=True, slots=True)
class Cell:
    """A point of a grid: what epsilon depends on.

    Attributes
    ----------
    epsilon0, delta : float
    cluster_size : int
        Honest users whose reports are shuffled together.
    dimension : int
        Coordinates of the noised vector; 1 for a single coordinate.
    rounds : int
    """

    epsilon0: float
    delta: float
    cluster_size: int
    dimension: int = 1
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class EpsilonRow:
    """One row: the best bracket, and the bounds that it was chosen from.

    Attributes
    ----------
    cell : Cell
    best : Bracket
        The least valid upper bound and the greatest lower one.
    bounds : mapping of str to Bracket
        ``local``, ``basic``, ``refined``, ``floor`` and ``paper_theorem2`` of a vector row.
    methods : tuple of MethodBound
        Bounds of the literature, of a coordinate row.

    ``best`` is None where the computation left the finite numbers: ``failure`` says how.
    """

    cell: Cell
    best: Bracket | None
    bounds: Mapping[str, Bracket]
    methods: tuple[MethodBound, ...] = ()
    failure: str = ""


def coordinate_rows(cells: Iterable[Cell], *, methods: Sequence[str] = ()) -> Iterator[EpsilonRow]:
    """Yield one row a cell for a single shuffled coordinate, each computed when asked for.

    Parameters
    ----------
    methods : sequence of str
        Keys of :data:`METHODS` to evaluate beside the exact blanket.

    Raises
    ------
    ConfigurationError
        If a method is unknown, or a parameter of a cell out of range.

    Examples
    --------
    >>> (row,) = coordinate_rows([Cell(1.0, 1e-5, 20)], methods=["fmt21-closed"])
    >>> round(row.best.upper, 3), row.methods[0].note
    (0.888, 'out of domain: needs n >= 531')
    """
    chosen = check_methods(methods) if methods else ()
    for _, block in itertools.groupby(cells, key=lambda c: (c.epsilon0, c.delta, c.rounds)):
        for part in _batched(block):
            known = _known(part)
            for cell in part:
                answers = tuple(_answer(name, cell) for name in chosen)
                release = ShuffledVector(cell.cluster_size, cell.epsilon0, 1)
                try:
                    best = known.get(cell.cluster_size) or compose_coordinate(
                        {release: cell.rounds}, cell.delta
                    )
                except ArithmeticError as error:
                    yield EpsilonRow(cell, None, {}, answers, str(error))
                else:
                    yield EpsilonRow(cell, best, {}, answers)


def _answer(name: str, cell: Cell) -> MethodBound:
    n, epsilon0, delta = cell.cluster_size, cell.epsilon0, cell.delta
    return method_bound(name, n=n, epsilon0=epsilon0, delta=delta, rounds=cell.rounds)


def _batched(cells: Iterable[Cell]) -> Iterator[list[Cell]]:
    remaining = iter(cells)
    while part := list(itertools.islice(remaining, _BLOCK)):
        yield part


def _known(cells: Sequence[Cell]) -> Mapping[int, Bracket]:
    """Return the brackets of a block of cells alike but for their size, if it is worth it."""
    first = cells[0]
    sizes = [cell.cluster_size for cell in cells]
    if first.rounds != 1 or len(set(sizes)) < _WORTH:
        return {}
    try:
        return coordinate_brackets(sizes, first.epsilon0, first.delta)
    except ArithmeticError:
        # One of them left the finite numbers; each by itself then tells which.
        return {}


def vector_rows(cells: Iterable[Cell], *, certified: bool = False) -> Iterator[EpsilonRow]:
    """Yield one row a cell for the whole noised vector, each computed when asked for.

    The best bracket is the least of the upper bounds whose domain holds, and a lower bound: the
    spread-input floor where there are enough coordinates for it, else what a single coordinate
    that carries the whole change loses over the rounds. ``certified`` has the refined bound
    evaluated again by interval arithmetic, under ``certified``; see
    :func:`privaudit.accounting.certify`.

    Raises
    ------
    OutOfDomainError
        If a parameter of a cell is out of range.

    Examples
    --------
    >>> (row,) = vector_rows([Cell(1.0, 1e-5, 4, 582026)])
    >>> round(row.best.lower, 2), round(row.best.upper, 1)
    (1.99, 2.3)
    """
    for cell in cells:
        release = ShuffledVector(cell.cluster_size, cell.epsilon0, cell.dimension)
        releases = {release: cell.rounds}
        try:
            whole = compose_vectors(releases, cell.delta)
            bounds = {
                "paper_theorem2": compose_theorem2(releases, cell.delta),
                "local": whole.local,
                "basic": whole.basic,
                "refined": whole.refined,
                "floor": whole.floor,
            }
            if certified:
                bounds["certified"] = certify(
                    cell.cluster_size,
                    cell.epsilon0,
                    cell.delta,
                    rounds=cell.rounds,
                    dimension=cell.dimension,
                )
            best = _best(cell, bounds)
        except ArithmeticError as error:
            yield EpsilonRow(cell, None, {}, failure=str(error))
        else:
            yield EpsilonRow(cell, best, bounds)


def _best(cell: Cell, bounds: Mapping[str, Bracket]) -> Bracket:
    # Theorems before certificates: of equal bounds the better founded one is named.
    named = ("local", "paper_theorem2", "basic", "refined")
    upper = bounds.get("certified") or min(
        (bounds[name] for name in named if bounds[name].domain_ok), key=_upper
    )
    floor = bounds["floor"]
    lower, source = floor.lower, floor.theorem
    if not floor.domain_ok:
        single = ShuffledVector(cell.cluster_size, cell.epsilon0, 1)
        lower = compose_coordinate({single: cell.rounds}, cell.delta).lower
        source = "one coordinate carries the whole change"
    return replace(
        upper,
        lower=None if lower is None else agreeing_lower(lower, _upper(upper), "the vector"),
        theorem=f"upper: {upper.theorem}; lower: {source}",
        note=f"lower: {floor.note}" if "certified" not in bounds else upper.note,
    )


def _upper(bracket: Bracket) -> float:
    return math.inf if bracket.upper is None else bracket.upper


def _value(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def record(row: EpsilonRow) -> dict[str, Any]:
    """Return a row as JSON values; a bound that is infinite is null, and the note says so.

    Examples
    --------
    >>> (row,) = coordinate_rows([Cell(1.0, 1e-5, 4)])
    >>> list(record(row))[:5]
    ['eps0', 'delta', 'cluster_size', 'dimension', 'rounds']
    """
    cell, best = row.cell, row.best
    infinite = best is not None and best.upper == math.inf
    values: dict[str, Any] = {
        "eps0": cell.epsilon0,
        "delta": cell.delta,
        "cluster_size": cell.cluster_size,
        "dimension": cell.dimension,
        "rounds": cell.rounds,
        "upper": _value(best.upper) if best else None,
        "lower": _value(best.lower) if best else None,
        "theorem": best.theorem if best else "",
        "status": best.status if best else "not computed",
        "note": _noted(best.note, infinite=infinite) if best else row.failure,
    }
    for name, bracket in row.bounds.items():
        # The floor, the one bound without an upper side, is no bound outside its domain.
        floor = bracket.lower if bracket.domain_ok else None
        values[name] = _value(floor if bracket.upper is None else bracket.upper)
    if row.methods:
        values["methods"] = {
            m.method: {"upper": m.upper, "status": m.status, "note": m.note} for m in row.methods
        }
    return values


def budget_record(row: BudgetRow) -> dict[str, Any]:
    """Return a row of a run's budget as JSON values, with the keys of :func:`record` and more."""
    infinite = row.upper is not None and math.isinf(row.upper)
    return {
        "eps0": row.epsilon0,
        "delta": row.delta,
        "cluster_size": row.cluster_size,
        "dimension": row.dimension,
        "rounds": row.rounds,
        "upper": _value(row.upper),
        "lower": _value(row.lower),
        "theorem": row.theorem,
        "status": row.status,
        "note": _noted(row.note, infinite=infinite),
        "quantity": row.quantity,
        "role": row.role,
        "honest_users": row.honest_users,
        "clusters": row.clusters,
        "domain_ok": row.domain_ok,
    }


def _noted(note: str, *, infinite: bool) -> str:
    return "; ".join(part for part in ("upper is infinite" if infinite else "", note) if part)
