"""The privacy budget of the private variants, through the ledger, and reference values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from privaudit.accounting import ReleaseBudget, budget, compose_releases
from privaudit.campaigns.assembly import as_row
from privaudit.campaigns.pq_mds.audit import AuditResult
from privaudit.campaigns.runs import RecordedRun
from privaudit.leakage import min_entropy_leakage, randomised_response_channel
from privaudit.ledger import CoveredRelease, RandomizedResponse, UnprotectedRelease
from privaudit.protocols.pq_mds import PQMDS
from privaudit.reports.model import BudgetRow, MeasuredTable

__all__ = ["budget_rows", "budget_statements", "person_epsilon", "reference_table"]

#: Codewords, budget of a code, codes: randomised responses whose budget is stated for comparison.
_REFERENCES = ((16, 0.5, 8), (16, 1.0, 8), (16, 1.0, 16), (8, 2.0, 2))


def _released(run: RecordedRun) -> Counter[CoveredRelease] | None:
    """Return all that is released about one person over all parties; None if any is unprotected."""
    found: Counter[CoveredRelease] = Counter()
    for event in PQMDS().events(run.transcript):
        if isinstance(event.mechanism, UnprotectedRelease):
            return None
        assert not isinstance(event.mechanism, UnprotectedRelease)
        found[event.mechanism] += 1  # type: ignore[index]
    return found


def person_epsilon(run: RecordedRun, *, delta: float) -> float | None:
    """Return epsilon of all that a run releases about one person; None if it is not finite."""
    releases = _released(run)
    if not releases:
        return None
    return _composed(frozenset(releases.items()), delta).best.upper


@lru_cache(maxsize=32)
def _composed(releases: frozenset[tuple[CoveredRelease, int]], delta: float) -> ReleaseBudget:
    return compose_releases(dict(releases), delta)


def budget_rows(result: AuditResult) -> Iterator[BudgetRow]:
    """Yield the rows of the private variants: of one party's row, and of a person over all."""
    delta = result.config.delta
    for name, setting in result.settings.items():
        if setting.group not in ("private", "audited"):
            continue
        run = result.runs[name]
        spent = budget(PQMDS().events(run.transcript), delta=delta)
        for row in spent.rows:
            own = as_row(BudgetRow, row)
            role = "user" if own.role == "user" else "other"
            yield own.model_copy(
                update={"note": f"{setting.words}, one party: {own.note}", "role": role}
            )
        releases = _released(run)
        if not spent.rows or not releases:
            continue
        person = _composed(frozenset(releases.items()), delta)
        for what, bracket in (
            ("sum of the epsilons", person.pure),
            ("Renyi composition", person.renyi),
            ("privacy loss distribution", person.loss_distribution),
        ):
            if bracket is not None:
                yield as_row(BudgetRow, spent.rows[-1]).model_copy(
                    update={
                        "quantity": f"one person over all parties: {what}",
                        "lower": bracket.lower,
                        "upper": bracket.upper,
                        "theorem": bracket.theorem,
                        "status": bracket.status,
                        "note": setting.words,
                        "role": "other",
                    }
                )


def budget_statements(result: AuditResult) -> tuple[str, ...]:
    """Return the sentences on the budget for the first page."""
    delta = result.config.delta
    audited = person_epsilon(result.runs["main"], delta=delta)
    told = [
        "PQ-MDS as the paper has it claims no privacy budget and has none: what is uploaded is a "
        "function of the row."
        if audited is None
        else f"All that the audited run releases about one person has ε at most {audited:.2f} at "
        f"δ = {delta:g}."
    ]
    for name, setting in result.settings.items():
        if setting.group == "private":
            epsilon = person_epsilon(result.runs[name], delta=delta)
            if epsilon is None:
                told.append(
                    f"The variant '{setting.words}' has no finite budget: columns are scaled by "
                    "numbers computed from the rows, which the ledger lists as unprotected."
                )
                continue
            told.append(
                f"The variant '{setting.words}' (with noise in the codebooks) spends ε = "
                f"{epsilon:.2f} at δ = {delta:g} on one person over all parties."
            )
    return tuple(told)


def reference_table(*, delta: float) -> MeasuredTable:
    """Return budgets of randomised responses alone, for comparison with published figures."""
    rows = []
    for codewords, epsilon0, codes in _REFERENCES:
        spent = compose_releases({RandomizedResponse(codewords, epsilon0, codes): 1}, delta)
        channel = randomised_response_channel(codewords, epsilon0)
        uniform = [1 / codewords] * codewords
        rows.append(
            (
                codewords,
                epsilon0,
                codes,
                None if spent.pure is None else spent.pure.upper,
                None if spent.loss_distribution is None else spent.loss_distribution.upper,
                spent.renyi.upper,
                float(channel[0, 0]),
                min_entropy_leakage(uniform, channel),
            )
        )
    return MeasuredTable(
        id="randomised-response",
        title="Budgets of randomised codes",
        caption=f"Randomised response alone, at δ = {delta:g}, for one party's codes of one row. "
        "The last columns are of one code, uniform beforehand: the probability of guessing it "
        "right, and the bits gained.",
        columns=(
            "#Codewords",
            "#ε of a code",
            "#Codes",
            "#ε, sum",
            "#ε, loss distribution",
            "#ε, Rényi",
            "#Guessed right",
            "#Bits gained",
        ),
        rows=tuple(rows),
    )
