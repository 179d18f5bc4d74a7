r"""Quantitative information flow: what seeing a channel's output is worth to a guesser.

A channel is a matrix :math:`C_{xy}=P[y\mid x]` from secrets to observations. Definitions follow
Smith (FoSSaCS 2009) and Alvim, Chatzikokolakis, McIver, Morgan, Palamidessi and Smith, *The
Science of Quantitative Information Flow* (Springer 2020), chapters 2, 3 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

__all__ = [
    "GainLeakage",
    "additive_capacity_bound",
    "deterministic_min_entropy_leakage",
    "g_leakage",
    "min_entropy_leakage",
    "randomised_response_channel",
    "shannon_capacity",
]

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GainLeakage:
    """Vulnerabilities under one gain function, before and after the observation.

    Attributes
    ----------
    prior, posterior : float
        Greatest expected gain without and with the observation.
    """

    prior: float
    posterior: float

    @property
    def additive(self) -> float:
        """Gain that the observation adds."""
        return self.posterior - self.prior

    @property
    def multiplicative(self) -> float:
        """Factor by which the observation raises the gain; infinite from nothing."""
        if self.prior == 0:
            return float("inf") if self.posterior > 0 else 1.0
        return self.posterior / self.prior

    @property
    def bits(self) -> float:
        """Multiplicative leakage in bits."""
        return float(np.log2(self.multiplicative))


def _checked(prior: npt.ArrayLike, channel: npt.ArrayLike) -> tuple[Matrix, Matrix]:
    p, c = np.asarray(prior, dtype=np.float64), np.asarray(channel, dtype=np.float64)
    if c.ndim != 2 or (c < 0).any() or not np.allclose(c.sum(axis=1), 1.0):
        raise ConfigurationError(
            f"a channel is a matrix of rows that sum to one, got shape {c.shape}"
        )
    if p.shape != (len(c),) or (p < 0).any() or not np.isclose(p.sum(), 1.0):
        raise ConfigurationError(
            f"a prior over {len(c)} secrets sums to one, got shape {p.shape}, sum {p.sum():.6g}"
        )
    return p, c


def g_leakage(prior: npt.ArrayLike, channel: npt.ArrayLike, gain: npt.ArrayLike) -> GainLeakage:
    r"""Return the vulnerabilities of a channel under a gain function.

    :math:`V_g(\pi)=\max_w\sum_x\pi_x g(w,x)` and
    :math:`V_g[\pi\triangleright C]=\sum_y\max_w\sum_x\pi_x C_{xy}g(w,x)`.

    Parameters
    ----------
    prior : array_like, shape (secrets,)
    channel : array_like, shape (secrets, observations)
    gain : array_like, shape (guesses, secrets)
        What guess w earns if the secret is x.

    Raises
    ------
    ConfigurationError
        If prior or channel are no probabilities, or shapes do not agree.

    Examples
    --------
    >>> g_leakage([0.5, 0.5], [[1, 0], [0, 1]], np.eye(2)).multiplicative
    2.0
    """
    p, c = _checked(prior, channel)
    g = np.asarray(gain, dtype=np.float64)
    if g.ndim != 2 or g.shape[1] != len(p) or not np.isfinite(g).all():
        raise ConfigurationError(
            f"a gain matrix has one finite column for each of {len(p)} secrets, got {g.shape}"
        )
    weighted = g * p
    return GainLeakage(
        prior=float(weighted.sum(axis=1).max()),
        posterior=float((weighted @ c).max(axis=0).sum()),
    )


def min_entropy_leakage(prior: npt.ArrayLike, channel: npt.ArrayLike) -> float:
    r"""Return :math:`\log_2(V[\pi\triangleright C]/V(\pi))` bits for guesses in one try.

    The g-leakage of the identity gain: the probability of guessing the secret (Bayes
    vulnerability).
    """
    return g_leakage(prior, channel, np.eye(len(np.asarray(prior)))).bits


def deterministic_min_entropy_leakage(outcomes: int) -> float:
    """Return the leakage of a deterministic channel under a uniform prior: log2 of its outcomes."""
    if outcomes < 1:
        raise ConfigurationError(f"a channel has at least one outcome, got {outcomes}")
    return float(np.log2(outcomes))


def additive_capacity_bound(codewords: npt.ArrayLike) -> float:
    r"""Return :math:`\sum_m\log_2 K_m` bits: no observation of such codes carries more."""
    k = np.asarray(codewords, dtype=np.float64)
    if k.size == 0 or (k < 1).any():
        raise ConfigurationError(f"every subspace has at least one codeword, got {k.tolist()}")
    return float(np.log2(k).sum())


def randomised_response_channel(codewords: int, epsilon: float) -> Matrix:
    r"""Return the channel of k-ary randomised response.

    The diagonal is :math:`e^\varepsilon/(e^\varepsilon+K-1)`, all else
    :math:`1/(e^\varepsilon+K-1)`. Under a uniform prior its Bayes vulnerability is the diagonal.
    """
    if codewords < 2 or not epsilon >= 0:
        raise ConfigurationError(
            f"randomised response needs 2 codewords or more and epsilon >= 0, got {codewords} "
            f"and {epsilon}"
        )
    keep = 1.0 / (1.0 + (codewords - 1) * np.exp(-epsilon))
    channel = np.full((codewords, codewords), (1.0 - keep) / (codewords - 1))
    np.fill_diagonal(channel, keep)
    return channel


def shannon_capacity(
    channel: npt.ArrayLike, *, tolerance: float = 1e-9, steps: int = 10_000
) -> float:
    """Return a channel's capacity in bits (Blahut and Arimoto, IEEE Trans. IT 18, 1972).

    Stops when upper and lower bound differ by less than ``tolerance``.

    Raises
    ------
    ConfigurationError
        If the rows are no probabilities, or the bounds do not meet within ``steps``.
    """
    c = np.asarray(channel, dtype=np.float64)
    prior = np.full(len(c), 1.0 / len(c))
    _checked(prior, c)
    for _ in range(steps):
        marginal = prior @ c
        ratio = np.divide(c, marginal, out=np.ones_like(c), where=(c > 0) & (marginal > 0))
        divergence = (c * np.log2(ratio)).sum(axis=1)
        lower = np.log2((prior * np.exp2(divergence)).sum())
        if divergence.max() - lower < tolerance:
            return float(lower)
        prior = prior * np.exp2(divergence)
        prior /= prior.sum()
    raise ConfigurationError(f"the capacity did not converge to {tolerance} in {steps} steps")
