"""Which labels a user trained on, from reports under Laplace noise and over many rounds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.attacks.inference._histograms import known_labels, population
from privaudit.attacks.shadows import PublishedTraining
from privaudit.attacks.updates import public_number, records_told, stale_starts
from privaudit.errors import ConfigurationError, UnmetRequirementsError
from privaudit.protocols.pa_cfl import kinds
from privaudit.transcript import Capability, PartyId, View

__all__ = ["LabelsFromNoisedRemainder"]

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Report:
    """The mean of some users' noised remainders; ``scale`` is that of a single one's noise."""

    users: tuple[PartyId, ...]
    round: int
    values: Float64
    indices: npt.NDArray[np.int64]
    threshold: float
    scale: float


@dataclass(frozen=True, slots=True)
class LabelsFromNoisedRemainder:
    r"""Infer users' labels from less important values that they clip and noise (PA-CFL, 5.5).

    A report is :math:`y = x + \mathrm{Laplace}(2 \Phi / \varepsilon_0)` on each coordinate. No
    coordinate can be told apart from noise, but all together can: x is modelled as
    :math:`\sum_c h_c M_c`, with :math:`M_c` the mean remainder, clipped to :math:`\Phi`, of
    users with records of class c alone, which the adversary trains itself; h are the user's
    shares of classes, Gaussian around the auxiliary records' shares p before anything is seen. The
    posterior mean of h is linear in a score. With :math:`r = y - \sum_c p_c M_c`:

    * ``laplace``: :math:`\sum_j \mathrm{sign}(r_j) (M_{cj} - \bar M_j) / b`, the derivative of the
      log-likelihood, with information :math:`1 / b^2` a coordinate, r taken at the linear estimate
      so far instead of p (one Newton step from there);
    * ``linear``: correlation with r, as if the noise were Gaussian of variance :math:`2 b^2`: half
      the information.

    Rounds have independent noise: scores and information are added, with templates of each round.
    The management server (MS) sees each user's report; it does not see where users start after
    the first round and uses the initial parameters, unless a user colludes, whose parameters then
    stand for all. The aggregation server (AS) with a user sees reports shuffled in pre-clusters:
    their mean, by the linear filter, the
    same guess for all members.

    Attributes
    ----------
    filter : {"laplace", "linear"}
    rounds : int or None
        Use the first so many rounds; None for all.
    records : int
        Records of a simulated user; where the view tells those of the users, their mean.
    simulated_users : int
        Simulated users of each class and round, whose remainders are averaged.
    prior_deviation : float
        Standard deviation of a class's share before anything is seen.
    """

    filter: Literal["laplace", "linear"] = "laplace"
    rounds: int | None = None
    records: int = 64
    simulated_users: int = 4
    prior_deviation: float = 0.3

    name: ClassVar[str] = "inference/labels-from-noised-remainder"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset[Capability]] = frozenset(
        {
            Capability.MODEL_ARCHITECTURE,
            Capability.MODEL_PARAMETERS,
            Capability.TRAINING_PARAMETERS,
            Capability.AUXILIARY_DATA,
        }
    )
    reads: ClassVar[tuple[str, ...]] = (
        kinds.NOISED_REMAINDER,
        kinds.SHUFFLED_REMAINDER,
        kinds.PRE_CLUSTERING,
        kinds.GLOBAL_PERMUTATION,
        kinds.CLIPPING_THRESHOLD,
        kinds.CLUSTER_AGGREGATE,
        kinds.GLOBAL_AGGREGATE,
        kinds.DATASET_SIZE,
    )

    def __post_init__(self) -> None:
        if self.filter not in ("laplace", "linear"):
            raise ConfigurationError(f"filter is 'laplace' or 'linear', got {self.filter!r}")
        if min(self.records, self.simulated_users) < 1 or not self.prior_deviation > 0:
            raise ConfigurationError(
                "records and simulated_users must be >= 1 and prior_deviation > 0, got "
                f"{self.records}, {self.simulated_users} and {self.prior_deviation}"
            )
        if self.rounds is not None and self.rounds < 1:
            raise ConfigurationError(f"rounds must be >= 1, got {self.rounds}")

    def run(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Infer the labels of every user outside the coalition.

        Returns
        -------
        Guesses
            Targets are the users; values are histograms, (classes,) float64, that sum to one;
            scores are their largest entries. Where nothing can be told, both are the prior's.

        Raises
        ------
        UnmetRequirementsError
            If a capability is lacking, the view holds no noised report whose coordinates are
            known, or epsilon0 is not public.
        """
        prior, reports = self._reports(view, knowledge)
        assert knowledge.model is not None
        training = PublishedTraining.of(view, knowledge.model, attack=self.name)
        starts = stale_starts(view, knowledge)
        classes = len(prior)
        score: dict[PartyId, Float64] = defaultdict(lambda: np.zeros(classes))
        information: dict[PartyId, Float64] = defaultdict(lambda: np.zeros((classes, classes)))
        linear: dict[PartyId, Float64] = defaultdict(lambda: np.zeros(classes))
        spread: dict[PartyId, Float64] = defaultdict(lambda: np.zeros((classes, classes)))
        told = records_told(view)
        size = round(float(np.mean(list(told.values())))) if told else self.records
        templates: dict[bytes, Float64] = {}
        current = 0
        for report in reports:
            if report.round != current:
                templates, current = {}, report.round
            known = starts[report.round]
            own = [known.get(u) for u in report.users]
            start = known[None] if own[0] is None else own[0]
            key = start.tobytes()
            if key not in templates:
                templates[key] = self._templates(
                    training, start, report, knowledge, size=size, rng=rng
                )
            means = templates[key]
            expected = prior @ means
            moves = means - expected
            gram = moves @ moves.T
            rest = report.values - expected
            # A mean of reports is taken as Gaussian; a single one is Laplace.
            variance = 2 * report.scale**2 / len(report.users)
            sharp = self.filter == "laplace" and len(report.users) == 1
            for user in report.users:
                if user in view.coalition.members:
                    continue
                linear[user] += moves @ rest / variance
                spread[user] += gram / variance
                if not sharp:
                    score[user] += moves @ rest / variance
                    information[user] += gram / variance
                    continue
                # One step from the linear estimate: at the prior, signs saturate at weak noise.
                shift = _shift(linear[user], spread[user], self.prior_deviation)
                fisher = gram / report.scale**2
                signs = np.sign(rest - shift @ moves)
                score[user] += moves @ signs / report.scale + fisher @ shift
                information[user] += fisher
        users = _targets(view, reports)
        values = [_posterior(score[u], information[u], prior, self.prior_deviation) for u in users]
        # What one share moves the log-likelihood by: below 1 nothing can be told.
        told_apart = [float(np.sqrt(np.trace(information[u]) / classes)) for u in users]
        return Guesses(
            target_ids=users,
            values=tuple(values),
            scores=np.array([v.max() for v in values]),
            diagnostics=MappingProxyType(
                {
                    "rounds": float(len({r.round for r in reports})),
                    "signal-to-noise ratio of a class": float(np.mean(told_apart)),
                }
            ),
        )

    def baseline(self, view: View, *, knowledge: Knowledge, rng: np.random.Generator) -> Guesses:
        """Guess the label histogram of the auxiliary records."""
        prior, reports = self._reports(view, knowledge)
        users = _targets(view, reports)
        return Guesses(users, tuple(prior.copy() for _ in users), np.zeros(len(users)))

    def _reports(self, view: View, knowledge: Knowledge) -> tuple[Float64, list[_Report]]:
        view.require(self.requires, attack=self.name)
        labels, classes = known_labels(knowledge, attack=self.name)
        epsilon0 = public_number(view, "epsilon0")
        orders = {m.round: m.arrays["indices"] for m in view.select(kinds.GLOBAL_PERMUTATION)}
        thresholds = {
            m.round: float(m.arrays["threshold"]) for m in view.select(kinds.CLIPPING_THRESHOLD)
        }
        fixed = public_number(view, "clip_norm")
        reports = []
        for t, users, values in _remainders(view):
            threshold = thresholds.get(t, fixed)
            if t not in orders or threshold is None or epsilon0 is None:
                continue
            if self.rounds is not None and t > self.rounds:
                continue
            dimension = len(values) + len(orders[t])
            rest = np.setdiff1d(np.arange(dimension), orders[t])
            scale = 2 * threshold / epsilon0
            if not set(users) <= view.coalition.members:
                reports.append(_Report(users, t, values, rest, threshold, scale))
        if not reports:
            raise UnmetRequirementsError(
                f"attack '{self.name}' needs noised remainders of users outside {view.coalition}, "
                "their coordinates and threshold, and a public epsilon0; the view does not hold "
                "them all (the AS needs a user in the coalition)"
            )
        return population(labels, classes), sorted(reports, key=lambda r: r.round)

    def _templates(
        self,
        training: PublishedTraining,
        start: npt.NDArray[np.float32],
        report: _Report,
        knowledge: Knowledge,
        *,
        size: int,
        rng: np.random.Generator,
    ) -> Float64:
        """Return the mean clipped remainder of simulated users of each class, (classes, m)."""
        auxiliary, spec = knowledge.auxiliary, knowledge.model
        assert auxiliary is not None
        assert spec is not None
        found = np.zeros((spec.classes, len(report.indices)))
        for c in range(spec.classes):
            held = np.flatnonzero(auxiliary.labels == c)
            if not len(held):
                continue
            for _ in range(self.simulated_users):
                records = auxiliary.take(rng.choice(held, size, replace=size > len(held)))
                update = training.update(records, start, round=report.round, rng=rng)
                rest = update[report.indices].astype(np.float64)
                norm = float(np.linalg.norm(rest))
                if np.isfinite(norm) and norm > 0:
                    found[c] += rest * min(1.0, report.threshold / norm) / self.simulated_users
        return found


def _remainders(view: View) -> list[tuple[int, tuple[PartyId, ...], Float64]]:
    """Return round, users and their (mean) noised remainder, by ascending coordinate."""
    single: list[tuple[int, tuple[PartyId, ...], Float64]] = [
        (m.round or 0, (m.sender,), m.arrays["values"].astype(np.float64))
        for m in view.select(kinds.NOISED_REMAINDER)
        if m.sender not in view.coalition.members
    ]
    if single:
        return single
    found: list[tuple[int, tuple[PartyId, ...], Float64]] = []
    for clusters in view.select(kinds.PRE_CLUSTERING):
        users = clusters.meta.get("users", ())
        assert isinstance(users, list | tuple)
        sent = {
            str(m.meta["user"]): m.arrays["values"].astype(np.float64)
            for m in view.select(kinds.SHUFFLED_REMAINDER, round=clusters.round)
        }
        assignment = clusters.arrays["assignment"]
        for cluster in np.unique(assignment):
            members = tuple(str(u) for u, a in zip(users, assignment, strict=True) if a == cluster)
            if all(u in sent for u in members):
                pooled = np.stack([sent[u] for u in members]).sum(axis=0) / len(members)
                found.append((clusters.round or 0, members, pooled))
    return found


def _targets(view: View, reports: list[_Report]) -> tuple[PartyId, ...]:
    users = dict.fromkeys(u for r in reports for u in r.users)
    return tuple(u for u in users if u not in view.coalition.members)


def _shift(score: Float64, information: Float64, deviation: float) -> Float64:
    """Return by how much the shares' posterior mean differs from the prior's."""
    precision = information + np.eye(len(score)) / deviation**2
    return np.asarray(np.linalg.solve(precision, score), dtype=np.float64)


def _posterior(score: Float64, information: Float64, prior: Float64, deviation: float) -> Float64:
    """Return the posterior mean of the shares, clipped at zero and made to sum to one."""
    shares: Float64 = np.maximum(prior + _shift(score, information, deviation), 0.0)
    return shares / shares.sum() if shares.sum() > 0 else prior
