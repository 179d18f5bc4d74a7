"""Bounds of the literature by name, each with its domain, as tables set them beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from privaudit.accounting._counts import fmt21_numerical, fmt23_numerical
from privaudit.accounting._literature import (
    bennett_blanket,
    erlingsson_2019,
    fmt21_closed_form,
    fmt21_minimum_users,
    hoeffding_blanket,
)
from privaudit.accounting.bracket import OutOfDomainError
from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["METHODS", "Method", "MethodBound", "check_methods", "method_bound"]

#: Above it the numerical clone bounds would come out too small.
_MOST_CLONES: Final = 20.0
_ONE_ROUND = "stated for one round only"


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


def method_bound(
    name: str, *, n: int, epsilon0: float, delta: float, rounds: int = 1
) -> MethodBound:
    """Return what one method answers, or what it needs."""
    method = METHODS[name]
    if rounds != 1:
        return MethodBound(name, None, "out of domain", _ONE_ROUND)
    where = (n, epsilon0, delta)
    unmet = method.needs(*where)
    if unmet:
        note = f"out of domain: needs {', '.join(unmet)}"
        return MethodBound(name, None, "out of domain", note)
    try:
        upper = method.bound(*where)
    except OutOfDomainError as error:
        return MethodBound(name, None, "out of domain", f"out of domain: {error}")
    return MethodBound(name, upper, method.status, method.caveat)
