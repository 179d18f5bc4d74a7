r"""Releases that hide among nobody: randomized response, Gaussian noise, declared guarantees.

An (epsilon, delta)-DP release is, at its worst, one that fails openly with probability delta and
is otherwise binary randomized response with epsilon (Kairouz, Oh, Viswanath 2015). So of the delta
asked for, what the releases themselves fail with is set aside first, and the rest composes.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from privaudit.accounting.bracket import (
    Bracket,
    NumericalError,
    OutOfDomainError,
    agreeing_lower,
    check_count,
    check_delta,
    check_finite,
)
from privaudit.accounting.composition import epsilon_of_gaussian
from privaudit.ledger import (
    ApproximateRelease,
    CoveredRelease,
    GaussianMechanism,
    PureRelease,
    RandomizedResponse,
    SubsampledGaussian,
)

__all__ = ["LEAST_PLD_DELTA", "ReleaseBudget", "compose_releases", "zcdp_of_release"]

Relation = Literal["replace-one", "add-remove"]

#: Below it the convolutions of privacy loss distributions, exact to about 1e-16 a point, say
#: nothing; above so many compositions or lattice points they take minutes.
LEAST_PLD_DELTA: Final = 1e-9
_MOST_COMPOSED: Final = 100_000
_MOST_ZCDP: Final = 1_000.0
_POINTS: Final = 2_000_000
_FINEST: Final = 1e-4
#: Above it powers of exp(epsilon) leave double precision.
_MOST_EPSILON: Final = 500.0
_UNIT: Final = "one user's contribution, as the events state it"


@dataclass(frozen=True, slots=True)
class ReleaseBudget:
    """Bounds on epsilon of all releases together.

    Attributes
    ----------
    pure : Bracket or None
        Sum of the epsilons; None if some release has none, or delta does not cover their deltas.
    renyi : Bracket
        Renyi divergences added and converted (dp_accounting).
    loss_distribution : Bracket or None
        Privacy loss distributions convolved (dp_accounting), with a lower bound if every mechanism
        is known exactly; None outside its domain, which ``renyi.note`` then tells.
    best : Bracket
        The least of the upper bounds, with the lower bound if there is one.
    """

    pure: Bracket | None
    renyi: Bracket
    loss_distribution: Bracket | None
    best: Bracket


def zcdp_of_release(release: CoveredRelease) -> float:
    """Return a rough zero-concentrated budget, by which histories are compared before accounting.

    ``epsilon^2 / 2`` for what is epsilon-DP, exact for the Gaussian mechanism, and
    ``q^2 steps / (2 z^2)`` for the subsampled one, which is no bound.
    """
    if isinstance(release, RandomizedResponse):
        return release.reports * release.epsilon0**2 / 2
    if isinstance(release, GaussianMechanism):
        return release.rho
    if isinstance(release, SubsampledGaussian):
        q, z = release.sampling_probability, release.noise_multiplier
        return release.steps * q * q / (2 * z * z)
    return release.epsilon**2 / 2


def compose_releases(
    releases: Mapping[CoveredRelease, int],
    delta: float,
    *,
    relation: Relation = "replace-one",
    zcdp: float = 0.0,
) -> ReleaseBudget:
    """Bound epsilon of all releases of one user's data together.

    Parameters
    ----------
    releases : mapping of mechanism to int
        How often each was released. Later ones may depend on the results of earlier ones.
    delta : float
    relation : {"replace-one", "add-remove"}
    zcdp : float
        Zero-concentrated budget of further releases to compose with.

    Raises
    ------
    OutOfDomainError
        If there is no release, delta is not in (0, 1) or is not more than the releases' own deltas,
        or a mechanism is not analysed under the relation.
    NumericalError
        If a bound is not finite.

    Examples
    --------
    >>> spent = compose_releases({RandomizedResponse(16, 0.5, 8): 1}, 1e-5)
    >>> [round(b.upper, 3) for b in (spent.pure, spent.loss_distribution, spent.renyi) if b]
    [4.0, 2.493, 2.823]
    """
    check_delta(delta)
    if not releases:
        raise OutOfDomainError("no release is named")
    for release, count in releases.items():
        check_count("the number of releases", count)
        if isinstance(release, RandomizedResponse) and relation != "replace-one":
            raise OutOfDomainError("randomized response is analysed under 'replace-one'")
        if isinstance(release, SubsampledGaussian) and relation != "add-remove":
            raise OutOfDomainError("Poisson sampling is analysed under 'add-remove'")
        epsilon = getattr(release, "epsilon0", getattr(release, "epsilon", 0.0))
        if epsilon > _MOST_EPSILON:
            raise OutOfDomainError(
                f"composition needs epsilon <= {_MOST_EPSILON:g} a release, in double precision; "
                f"{release.name} has {epsilon:g}"
            )
    left = _left(releases, delta)
    upper = _renyi(releases, left, relation, zcdp)
    pure = _pure(releases, zcdp)

    def bracket(
        value: float, theorem: str, status: Literal["proven", "numerical"], note: str = ""
    ) -> Bracket:
        return Bracket(
            lower=None,
            upper=check_finite(theorem, value),
            delta=delta,
            theorem=theorem,
            direction="upper rounded up",
            status=status,
            domain_ok=True,
            unit=_UNIT,
            relation=relation,
            assumptions=("independent noise", "mechanisms as declared"),
            note=note,
        )

    lost: tuple[float, float | None] | None
    if not zcdp and all(isinstance(release, GaussianMechanism) for release in releases):
        rho = sum(count * zcdp_of_release(release) for release, count in releases.items())
        value = epsilon_of_gaussian(math.sqrt(2 * rho), delta)
        lost, why = (value * (1 + 1e-8) + 1e-10, max(0.0, value * (1 - 1e-8) - 1e-10)), ""
        source = "equal to one Gaussian mechanism, mu^2 = 2 rho (Dong, Roth, Su 2022, Cor. 2.13)"
    else:
        lost, why = _loss_distribution(releases, left, zcdp)
        source = "privacy loss distributions, convolved (dp_accounting)"
    renyi = bracket(
        upper,
        "Renyi divergences of all releases, added (dp_accounting; conversion of Canonne, Kamath, "
        "Steinke 2020)",
        "proven",
        why,
    )
    basic = None
    if pure is not None:
        basic = bracket(pure, "sum of the epsilons (basic composition)", "proven")
    numerical = None
    if lost is not None:
        high, low = lost
        note = "" if low is not None else "no lower bound: a guarantee is declared, not a mechanism"
        found = bracket(high, source, "numerical", note)
        numerical = _with_lower(found, low)
    upper_of = (b for b in (basic, numerical, renyi) if b is not None)
    best = min(upper_of, key=lambda b: b.upper or 0.0)
    lower = None if numerical is None else numerical.lower
    return ReleaseBudget(basic, renyi, numerical, _with_lower(best, lower))


def _with_lower(bracket: Bracket, lower: float | None) -> Bracket:
    if lower is None or bracket.upper is None:
        return bracket
    lower = agreeing_lower(lower, bracket.upper, "noised releases")
    return replace(bracket, lower=lower, direction="both outwards")


def _left(releases: Mapping[CoveredRelease, int], delta: float) -> float:
    """Return the delta that is left to composition: 1 - (1 - delta) / prod(1 - delta_i)."""
    kept = sum(
        count * math.log1p(-release.delta)
        for release, count in releases.items()
        if isinstance(release, ApproximateRelease)
    )
    left = -math.expm1(math.log1p(-delta) - kept) if kept else delta
    if not left > 0:
        raise OutOfDomainError(
            f"delta = {delta:g} is not more than the {-math.expm1(kept):g} with which the releases "
            "fail by themselves; ask for a larger delta"
        )
    return left


def _pure(releases: Mapping[CoveredRelease, int], zcdp: float) -> float | None:
    total = 0.0
    for release, count in releases.items():
        if isinstance(release, RandomizedResponse):
            total += count * release.reports * release.epsilon0
        elif isinstance(release, PureRelease | ApproximateRelease):
            total += count * release.epsilon
        else:
            return None
    return None if zcdp else total


@contextlib.contextmanager
def _unconverged_orders_left_out() -> Iterator[None]:
    """Keep dp_accounting's warning about single Renyi orders from standard error.

    It gives an order whose series does not converge an infinite divergence; the bound is the least
    over the other orders, so the warning tells a reader nothing to act on. Other messages pass.
    """

    def wanted(message: logging.LogRecord) -> bool:
        return "_compute_log_a_frac failed to converge" not in str(message.msg)

    logger = logging.getLogger("absl")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


def _renyi(
    releases: Mapping[CoveredRelease, int], delta: float, relation: Relation, zcdp: float
) -> float:
    import dp_accounting as dp
    import numpy as np
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    under: Any = {
        "replace-one": dp.NeighboringRelation.REPLACE_ONE,
        "add-remove": dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    }[relation]
    sampled = any(isinstance(release, SubsampledGaussian) for release in releases)
    orders = {float(a) for a in rdp.DEFAULT_RDP_ORDERS}
    if not sampled:
        # The closed forms cost nothing: a fine grid, from where tiny budgets have their best order
        # to where huge ones do.
        orders |= set((1 + np.geomspace(1e-3, 1e6, 1200)).tolist())
    accountant: Any = rdp.RdpAccountant(sorted(orders), under)
    with _unconverged_orders_left_out():
        if zcdp:
            accountant.compose(dp.ZCDpEvent(zcdp))
        for release, count in releases.items():
            if isinstance(release, RandomizedResponse):
                e, k = release.epsilon0, release.categories
                event: Any = dp.RandomizedResponseDpEvent(k / (math.exp(e) + k - 1), k)
                accountant.compose(event, count * release.reports)
            elif isinstance(release, GaussianMechanism):
                accountant.compose(dp.ZCDpEvent(release.rho), count)
            elif isinstance(release, SubsampledGaussian):
                event = dp.PoissonSampledDpEvent(
                    release.sampling_probability, dp.GaussianDpEvent(release.noise_multiplier)
                )
                accountant.compose(event, count * release.steps)
            elif relation == "replace-one":
                # Binary randomized response is the worst that a pure guarantee allows.
                event = dp.RandomizedResponseDpEvent(2 / (math.exp(release.epsilon) + 1), 2)
                accountant.compose(event, count)
            else:
                accountant.compose(dp.ZCDpEvent(release.epsilon**2 / 2), count)
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(accountant.get_epsilon(delta))
    return max(0.0, check_finite("epsilon from Renyi divergences", found))


def _loss_distribution(
    releases: Mapping[CoveredRelease, int], delta: float, zcdp: float
) -> tuple[tuple[float, float | None] | None, str]:
    """Return ((upper, lower) or None, why there is none)."""
    composed = sum(_times(release, count) for release, count in releases.items())
    if zcdp:
        return None, "no privacy loss distribution: of a clipped vector only its divergences known"
    if delta < LEAST_PLD_DELTA:
        return None, f"no privacy loss distribution: delta is below {LEAST_PLD_DELTA:g}"
    if composed > _MOST_COMPOSED:
        return None, f"no privacy loss distribution: more than {_MOST_COMPOSED:,} compositions"
    if any(_rho(release) * count > _MOST_ZCDP for release, count in releases.items()):
        return None, f"no privacy loss distribution: more than {_MOST_ZCDP:g}-zCDP"
    exact = not any(isinstance(r, PureRelease | ApproximateRelease) for r in releases)
    above = _convolved(releases, delta, composed, pessimistic=True)
    below = _convolved(releases, delta, composed, pessimistic=False) if exact else None
    return (above, None if below is None else max(0.0, min(below, above))), ""


def _rho(release: CoveredRelease) -> float:
    if isinstance(release, SubsampledGaussian):
        return 1 / (2 * release.noise_multiplier**2)
    return zcdp_of_release(release)


def _times(release: CoveredRelease, count: int) -> int:
    if isinstance(release, RandomizedResponse):
        return count * release.reports
    if isinstance(release, GaussianMechanism | SubsampledGaussian):
        return count * release.steps
    return count


def _convolved(
    releases: Mapping[CoveredRelease, int], delta: float, composed: int, *, pessimistic: bool
) -> float:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = _interval(releases, composed, pessimistic=pessimistic)
    # Rounding steps of the convolution itself, generously: added to one side of delta.
    doubt = 1e-12 if composed > 1 else 0.0
    total: Any = None
    for release, count in releases.items():
        times = count
        if isinstance(release, RandomizedResponse):
            e, k = release.epsilon0, release.categories
            times = count * release.reports
            one: Any = pld.from_randomized_response(
                k / (math.exp(e) + k - 1), k, pessimistic, value_discretization_interval=step
            )
        elif isinstance(release, GaussianMechanism):
            # Equal Gaussian releases are one with less noise.
            times = 1
            one = pld.from_gaussian_mechanism(
                release.noise_multiplier / math.sqrt(count * release.steps),
                pessimistic_estimate=pessimistic,
                value_discretization_interval=step,
                use_connect_dots=pessimistic,
            )
        elif isinstance(release, SubsampledGaussian):
            times = count * release.steps
            one = pld.from_gaussian_mechanism(
                release.noise_multiplier,
                sampling_prob=release.sampling_probability,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=step,
                use_connect_dots=pessimistic,
            )
        else:
            one = pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(release.epsilon, 0.0), step
            )
        many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    asked = delta - doubt if pessimistic else delta + doubt
    found = float(total.get_epsilon_for_delta(asked))
    if not math.isfinite(found):
        raise NumericalError("dp_accounting returned a privacy loss that is not finite")
    return max(0.0, found)


def _interval(releases: Mapping[CoveredRelease, int], composed: int, *, pessimistic: bool) -> float:
    """Return the lattice step of the privacy loss: rounding in k compositions costs k steps.

    A step that divides the loss of randomized response rounds it by nothing. Connecting the dots
    (upper bounds of Gaussian noise) costs far less than a step.
    """
    if any(isinstance(release, SubsampledGaussian) for release in releases):
        return _FINEST if pessimistic else _FINEST / max(1.0, math.sqrt(composed) / 5)
    spread = sum(count * 2 * zcdp_of_release(release) for release, count in releases.items())
    fine = max(_FINEST / math.sqrt(composed), 24 * math.sqrt(max(spread, 1e-12)) / _POINTS)
    losses = {release.epsilon0 for release in releases if isinstance(release, RandomizedResponse)}
    losses |= {r.epsilon for r in releases if isinstance(r, PureRelease | ApproximateRelease)}
    if len(losses) == 1:
        (loss,) = losses
        return loss / max(1, math.floor(loss / fine))
    return fine
