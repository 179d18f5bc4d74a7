"""Which column lies at which coordinate: relabelling, annealed assignment, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privaudit.attacks.inversion._blind_templates import Templates

__all__ = ["Factors", "Placed", "Placing", "Relabelled"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

#: Temperatures from a start that is nearly right.
_NEAR = (4.0, 2.0, 1.0, 1.0, 1.0)

#: Columns that a start is relabelled and annealed with; the others are placed at the end.
_COLUMNS = 200

_BALANCING = 5

#: Share of the factors' prior covariance that is added while classes are named.
_WIDENED = 0.3

#: Starts that must lead to the same order of the classes to end the search.
_AGREEING = 3


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """What is believed of users' factors.

    ``mean`` (users, factors) float64; ``covariance`` (factors, factors) float64, the same for all.
    """

    mean: Float64
    covariance: Float64


@dataclass(frozen=True, slots=True, eq=False)
class Relabelled:
    """The classes of the columns of a zero-sum group.

    Attributes
    ----------
    order : ndarray of int64, shape (classes,)
        Position in the group of each class's column.
    cost, runner_up : float
        Of this order and of the best other local minimum; the latter is ``inf`` if all starts
        agree.
    starts, evaluations : int
    """

    order: Int64
    cost: float
    runner_up: float
    starts: int
    evaluations: int


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A candidate for each column.

    Attributes
    ----------
    candidates : ndarray of int64, shape (columns,)
        Distinct positions among the candidates.
    confidence : ndarray of float64, shape (columns,)
        Probability of that candidate, as the model has it.
    factors : Factors
    cost : float
        Minus twice the log-likelihood, up to a constant.
    """

    candidates: Int64
    confidence: Float64
    factors: Factors
    cost: float


class Placing:
    r"""The search, for one federation.

    The cost of column l at candidate e is minus twice the logarithm of
    :math:`\prod_i N(V_{il};\, f_i^T W_e,\, \sigma_e^2 + W_e^T S W_e)`, with S the covariance of
    what is not known of the factors, plus that of the column's place in the order of importance.

    Parameters
    ----------
    values : ndarray of float64, shape (users, columns)
        In the order of importance.
    templates : Templates
    """

    def __init__(self, values: Float64, templates: Templates) -> None:
        self.templates = templates
        self.values = (values / templates.scale).astype(np.float32)
        self._squares = np.square(self.values).sum(0)
        self._loadings = templates.loadings.astype(np.float32)
        order = np.argsort(-self._squares, kind="stable")
        count = min(_COLUMNS, len(order))
        # From the longest to the shortest: the long ones alone hold few of the inner layers.
        self._some = np.sort(order[np.linspace(0, len(order) - 1, count).astype(np.int64)])

    def prior(self) -> Factors:
        """Return what is believed before anything was seen."""
        templates = self.templates
        covariance: Float64 = np.linalg.inv(templates.precision).astype(np.float64)
        return Factors(np.tile(templates.mean, (len(self.values), 1)), covariance)

    def of_histograms(self, histograms: Float64, *, variance: float = 1e-3) -> Factors:
        """Return factors whose label shares are nearly known."""
        prior, classes = self.prior(), self.templates.classes
        prior.mean[:, :classes] = histograms
        covariance = prior.covariance.copy()
        covariance[:classes, :classes] = variance * np.eye(classes)
        return Factors(prior.mean, covariance)

    def of_group(self, group: Int64, order: Int64) -> Factors:
        """Return factors given that a group's columns are the biases of the last layer."""
        return self._factors(self.values[:, group[order]], self.templates.biases)

    def relabel(
        self, group: Int64, *, starts: int, evaluations: int, rng: np.random.Generator
    ) -> Relabelled:
        """Find the classes of a zero-sum group, by descent over pairwise exchanges.

        The cost of an order is that of the nearest candidates of 200 columns, of whatever layer:
        the last layer's rows alone look alike under every order. Stops when the least cost was
        reached from three starts, after ``starts``, or after ``evaluations``.
        """
        score = self._order_cost(group)
        classes = len(group)
        found: list[tuple[float, tuple[int, ...]]] = []
        used = 0
        for _ in range(starts):
            order = rng.permutation(classes)
            current, improved = score(order), True
            used += 1
            while improved and used < evaluations:
                best, improved = (current, order), False
                for one in range(classes):
                    for other in range(one):
                        tried = order.copy()
                        tried[[one, other]] = tried[[other, one]]
                        cost = score(tried)
                        used += 1
                        if cost < best[0]:
                            best, improved = (cost, tried), True
                current, order = best
            found.append((current, tuple(order.tolist())))
            least = min(found)
            if used >= evaluations or sum(f[1] == least[1] for f in found) >= _AGREEING:
                break
        others = [cost for cost, order_ in found if order_ != least[1]]
        return Relabelled(
            np.array(least[1], np.int64),
            least[0],
            min(others, default=float("inf")),
            len(found),
            used,
        )

    def _order_cost(self, group: Int64) -> Callable[[Int64], float]:
        start = self.of_group(group, np.arange(len(group)))
        # At the model's own variance all wrong orders are equally hopeless, and descent from one
        # leads nowhere; under a wider one an order that is half right beats one that is not.
        wide = start.covariance + _WIDENED * np.linalg.inv(self.templates.precision)
        variance = self._variance(replace(start, covariance=wide))
        some = self._some
        fixed = self._squares[some, None] / variance + self._rest(variance, some)
        # What users' factors predict is linear in the group's columns, and so is its product with
        # the columns to be placed: an order costs one product with few inner dimensions.
        slope, base = self._prediction(start.covariance)
        columns = self.values[:, some].T
        fixed -= 2 * (columns.sum(1)[:, None] * base) / variance
        own, weighted = self.values[:, group], slope * (-2 / variance)
        inner, cost = columns @ own, np.empty_like(fixed)

        def score(order: Int64) -> float:
            np.matmul(inner[:, order], weighted, out=cost)
            np.add(cost, fixed, out=cost)
            predicted = own[:, order] @ slope
            predicted += base
            np.add(cost, np.square(predicted, out=predicted).sum(0) / variance, out=cost)
            return float(cost.min(1).sum(dtype=np.float64))

        return score

    def _prediction(self, covariance: Float64) -> tuple[Float32, Float32]:
        """Return slope and intercept of the values that the last layer's biases predict."""
        own = self.templates
        weights = own.loadings[:, own.biases] / own.noise[own.biases]
        slope = (weights.T @ covariance) @ own.loadings
        base = (own.precision @ own.mean) @ covariance @ own.loadings
        return slope.astype(np.float32), base.astype(np.float32)

    def place(self, start: Factors, *, rounds: int = 2) -> Placed:
        """Alternate between soft assignment and factors, and end with a linear assignment."""
        from scipy.optimize import linear_sum_assignment

        factors = self._annealed(start, _NEAR, self._some)
        every = np.arange(self.values.shape[1])
        factors = self._annealed(factors, (1.0,), every)
        for turn in range(rounds):
            cost = self._cost(factors, every)
            _, chosen = linear_sum_assignment(cost)
            total = float(cost[every, chosen].sum(dtype=np.float64))
            if turn + 1 < rounds:
                factors = self._factors(self.values, chosen)
        share = self._soft(cost, 1.0)
        return Placed(
            chosen.astype(np.int64), share[every, chosen].astype(np.float64), factors, total
        )

    def widened(self, start: Factors, schedule: Sequence[float]) -> Factors:
        """Alternate between soft assignment of some columns and factors, from far away.

        Factors that explain the columns under a wrong assignment look certain, and that assignment
        then is final. At each entry of ``schedule``, which falls, factors are held to be uncertain
        by that share of their prior covariance. This counts errors relative to what is usual at a
        coordinate, so that short columns matter as much as long ones.
        """
        prior, factors = np.linalg.inv(self.templates.precision), start
        for share in schedule:
            doubtful = replace(factors, covariance=factors.covariance + share * prior)
            variance, cost = self._variance(doubtful), self._cost(doubtful, self._some)
            soft = self._soft(cost, 1.0)
            sums = (self.values[:, self._some] @ soft) / variance
            factors = self._solve(soft.sum(0) / variance, sums)
        return factors

    def misfit(self, factors: Factors) -> float:
        """Return the cost of some columns, each at its nearest candidate."""
        return float(self._cost(factors, self._some).min(1).sum(dtype=np.float64))

    def _annealed(self, factors: Factors, temperatures: Sequence[float], part: Int64) -> Factors:
        for temperature in temperatures:
            variance = self._variance(factors) if temperature > 1.5 else None
            share = self._soft(self._cost(factors, part), temperature)
            factors = self._expected(part, share, temperature, variance)
        return factors

    def _variance(self, factors: Factors) -> Float32:
        spread = (self.templates.loadings * (factors.covariance @ self.templates.loadings)).sum(0)
        variance: Float32 = (self.templates.noise + spread).astype(np.float32)
        return variance

    def _rest(self, variance: Float32, part: Int64) -> Float32:
        """Parts of the cost that do not depend on the factors: normalisation and place."""
        own = self.templates
        place = np.log1p(part).astype(np.float32)[:, None]
        cost = np.square(place - own.log_rank.astype(np.float32))
        cost /= own.log_rank_variance.astype(np.float32)
        cost += len(self.values) * np.log(variance)
        return cost

    def _cost(self, factors: Factors, part: Int64) -> Float32:
        variance = self._variance(factors)
        predicted = factors.mean.astype(np.float32) @ self._loadings
        cost = self._rest(variance, part)
        cost += self._squares[part, None] / variance
        cost -= 2 * (self.values[:, part].T @ (predicted / variance))
        cost += np.square(predicted).sum(0) / variance
        return cost

    def _soft(self, cost: Float32, temperature: float) -> Float32:
        """Return shares of candidates in each column; no candidate is used more than once."""
        share = cost * np.float32(-0.5 / temperature)
        share -= share.max(1, keepdims=True)
        np.exp(share, out=share)
        share /= share.sum(1, keepdims=True)
        for _ in range(_BALANCING):
            share /= np.maximum(share.sum(0), 1)
            share /= share.sum(1, keepdims=True)
        return share

    def _expected(
        self, part: Int64, share: Float32, temperature: float, variance: Float32 | None
    ) -> Factors:
        noise = (self.templates.noise if variance is None else variance) * temperature
        return self._solve(share.sum(0) / noise, (self.values[:, part] @ share) / noise)

    def _factors(self, columns: Float32, candidates: Int64) -> Factors:
        count = self.templates.loadings.shape[1]
        weight, sums = np.zeros(count), np.zeros((len(columns), count))
        weight[candidates] = 1 / self.templates.noise[candidates]
        sums[:, candidates] = columns * weight[candidates]
        return self._solve(weight, sums)

    def _solve(self, weight: npt.NDArray[np.floating], sums: npt.NDArray[np.floating]) -> Factors:
        own = self.templates
        precision = (own.loadings * weight) @ own.loadings.T + own.precision
        covariance: Float64 = np.linalg.inv(precision).astype(np.float64)
        mean = (sums @ own.loadings.T + own.precision @ own.mean) @ covariance
        return Factors(mean, covariance)
