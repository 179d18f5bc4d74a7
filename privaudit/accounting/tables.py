"""Rows of epsilon tables: each a point of a grid of parameters, with its bounds. Data only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from privaudit.accounting._counts import fmt21_numerical, fmt23_numerical
from privaudit.accounting._literature import (
    bennett_blanket,
    erlingsson_2019,
    fmt21_closed_form,
    fmt21_minimum_users,
    hoeffding_blanket,
)
from privaudit.accounting.bracket import Bracket, OutOfDomainError
from privaudit.accounting.budget import BudgetRow
from privaudit.accounting.rounds import compose_coordinate
from privaudit.accounting.vector import (
    ShuffledVector,
    compose_theorem2,
    compose_vectors,
)
from privaudit.errors import ConfigurationError, did_you_mean

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

#: Above it the numerical clone bounds would come out too small.
_MOST_CLONES: Final = 20.0
_ONE_ROUND = "stated for one round only"


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
class Method:
    """A bound of the literature on one shuffled report.

    Attributes
    ----------
    source : str
    holds_for : str
        The randomizers for which it is a guarantee.
    status : str
        ``"proven"``, or ``"claimed by the paper"`` where an erratum took the proof away.
    bound : callable
        ``(n, epsilon0, delta) -> epsilon``; raises OutOfDomainError outside its domain.
    needs : callable
        ``(n, epsilon0, delta) -> conditions of the domain that are not met``.
    caveat : str
    """

    source: str
    holds_for: str
    status: str
    bound: Callable[[int, float, float], float]
    needs: Callable[[int, float, float], Sequence[str]] = lambda n, epsilon0, delta: ()
    caveat: str = ""


@dataclass(frozen=True, slots=True)
class MethodBound:
    """What a method answers for a cell; ``upper`` is None where it answers nothing."""

    method: str
    upper: float | None
    status: str
    note: str


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


def _closed_form_needs(n: int, epsilon0: float, delta: float) -> Sequence[str]:
    least = fmt21_minimum_users(epsilon0, delta)
    return [f"n >= {least:,}" if least < 10**15 else f"n >= {least:.3e}"] if n < least else []


def _erlingsson_needs(n: int, epsilon0: float, delta: float) -> Sequence[str]:
    conditions = (
        (epsilon0 <= 0.5, "eps0 <= 0.5"),
        (n >= 1000, "n >= 1,000"),
        (delta <= 0.01, "delta <= 0.01"),
    )
    return [needed for met, needed in conditions if not met]


def _clones_need(n: int, epsilon0: float, delta: float) -> Sequence[str]:
    # The evaluation takes 1 - p for 1 / (1 + exp(epsilon0)), which beyond is lost to rounding.
    return [] if epsilon0 <= _MOST_CLONES else [f"eps0 <= {_MOST_CLONES:g} to be evaluated"]


_BALLE = "Balle, Bell, Gascón, Nissim, CRYPTO 2019"
_ANY = "any epsilon0-DP local randomizer"
_LAPLACE = "Laplace noise on an interval"

#: Bounds of the literature by the name under which a table shows them.
METHODS: Final[Mapping[str, Method]] = {
    "efmrtt19": Method(
        "Erlingsson et al., SODA 2019",
        _ANY,
        "proven",
        erlingsson_2019,
        _erlingsson_needs,
    ),
    "hoeffding-generic": Method(
        f"{_BALLE}, Hoeffding form",
        _ANY,
        "proven",
        lambda n, e, d: hoeffding_blanket(n, e, d, laplace=False),
    ),
    "bennett-generic": Method(
        f"{_BALLE}, Bennett form",
        _ANY,
        "proven",
        lambda n, e, d: bennett_blanket(n, e, d, laplace=False),
    ),
    "hoeffding": Method(
        f"{_BALLE}, Hoeffding form",
        _LAPLACE,
        "proven",
        lambda n, e, d: hoeffding_blanket(n, e, d, laplace=True),
    ),
    "bennett": Method(
        f"{_BALLE}, Bennett form",
        _LAPLACE,
        "proven",
        lambda n, e, d: bennett_blanket(n, e, d, laplace=True),
    ),
    "fmt21-closed": Method(
        "Feldman, McMillan, Talwar, FOCS 2021, Theorem 3.1",
        _ANY,
        "proven",
        fmt21_closed_form,
        _closed_form_needs,
    ),
    "fmt21-numerical": Method(
        "Feldman, McMillan, Talwar, FOCS 2021, Theorem 3.2",
        _ANY,
        "proven",
        fmt21_numerical,
        _clones_need,
    ),
    "fmt23": Method(
        "Feldman, McMillan, Talwar, SODA 2023",
        "two-point randomized response; no proof for Laplace noise",
        "claimed by the paper",
        lambda n, e, d: fmt23_numerical(n, e, d)[0],
        _clones_need,
        caveat=(
            "the authors' erratum (arXiv 2208.04591) restricts it to a class of randomizers: as "
            "published, not a guarantee here"
        ),
    ),
}


def check_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Return the methods named, each once, in the order given; ``all`` means every one.

    Raises ConfigurationError if there is none, or a name is unknown.
    """
    chosen: list[str] = []
    for name in names:
        if name == "all":
            chosen += METHODS
        elif name in METHODS:
            chosen.append(name)
        else:
            raise ConfigurationError(
                f"{name!r} is not a method; allowed are all, {', '.join(METHODS)}."
                f"{did_you_mean(name, METHODS)}"
            )
    if not chosen:
        raise ConfigurationError(f"no method is named; allowed are all, {', '.join(METHODS)}")
    return tuple(dict.fromkeys(chosen))


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
    for cell in cells:
        release = ShuffledVector(cell.cluster_size, cell.epsilon0, 1)
        answers = tuple(_method_bound(name, cell) for name in chosen)
        try:
            best = compose_coordinate({release: cell.rounds}, cell.delta)
        except ArithmeticError as error:
            yield EpsilonRow(cell, None, {}, answers, str(error))
        else:
            yield EpsilonRow(cell, best, {}, answers)


def _method_bound(name: str, cell: Cell) -> MethodBound:
    method = METHODS[name]
    if cell.rounds != 1:
        return MethodBound(name, None, "out of domain", _ONE_ROUND)
    where = (cell.cluster_size, cell.epsilon0, cell.delta)
    unmet = method.needs(*where)
    if unmet:
        note = f"out of domain: needs {', '.join(unmet)}"
        return MethodBound(name, None, "out of domain", note)
    try:
        upper = method.bound(*where)
    except OutOfDomainError as error:
        return MethodBound(name, None, "out of domain", f"out of domain: {error}")
    return MethodBound(name, upper, method.status, method.caveat)


def vector_rows(cells: Iterable[Cell]) -> Iterator[EpsilonRow]:
    """Yield one row a cell for the whole noised vector, each computed when asked for.

    The best bracket is the least of the upper bounds whose domain holds, and a lower bound: the
    spread-input floor where there are enough coordinates for it, else what a single coordinate
    that carries the whole change loses in one round.

    Raises
    ------
    OutOfDomainError
        If a parameter of a cell is out of range.

    Examples
    --------
    >>> (row,) = vector_rows([Cell(1.0, 1e-5, 4, 582026)])
    >>> round(row.best.lower, 2), round(row.best.upper, 2)
    (1.99, 2.24)
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
            best = _best(cell, bounds)
        except ArithmeticError as error:
            yield EpsilonRow(cell, None, {}, failure=str(error))
        else:
            yield EpsilonRow(cell, best, bounds)


def _best(cell: Cell, bounds: Mapping[str, Bracket]) -> Bracket:
    # Theorems before certificates: of equal bounds the better founded one is named.
    named = ("local", "paper_theorem2", "basic", "refined")
    upper = min((bounds[name] for name in named if bounds[name].domain_ok), key=_upper)
    floor = bounds["floor"]
    lower, source = floor.lower, floor.theorem
    if not floor.domain_ok:
        single = ShuffledVector(cell.cluster_size, cell.epsilon0, 1)
        lower = compose_coordinate({single: cell.rounds}, cell.delta).lower
        source = "one coordinate carries the whole change"
    return replace(
        upper,
        lower=None if lower is None else min(lower, _upper(upper)),
        theorem=f"upper: {upper.theorem}; lower: {source}",
        note=f"lower: {floor.note}",
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
