"""A small report with what reporters stumble over: hostile texts, and numbers that are none."""

from __future__ import annotations

from typing import Final

from privaudit.reports.model import (
    AuditReport,
    BreachingCoalition,
    BudgetRow,
    Finding,
    Interval,
    NotRun,
    SystemUnderTest,
)

__all__ = ["sample_report"]

#: A name as a stranger's recording may hold it.
HOSTILE: Final = "user-1<script>alert('x')</script>\u202e\x07&\"|`,;\n=1+1"


def sample_report() -> AuditReport:
    """Return the report."""
    nan, inf = float("nan"), float("inf")
    finding = Finding(
        id="0123456789ab",
        risk="inference",
        title=f"Labels of {HOSTILE}",
        summary=HOSTILE,
        attack="toy/guess",
        attack_version="1",
        coalition=("server", HOSTILE),
        coalition_label=f"server + {HOSTILE}",
        coalition_size=2,
        capabilities=(),
        setting="one round",
        metric="label accuracy",
        estimate=Interval(value=0.5, low=0.1, high=0.9),
        baseline=Interval(value=0.1, low=0.0, high=0.4),
        control=None,
        confidence=0.95,
        n=2,
        failed=1,
        method="Clopper-Pearson",
        verdict="inconclusive",
        headline=True,
        worst_target=HOSTILE,
        worst_value=1.0,
        per_target={HOSTILE: 1.0, "user-2": nan},
        parameters={"round": 1},
        seconds=0.1,
        unit="proportion",
    )
    budget = BudgetRow(
        cluster_size=2,
        honest_users=2,
        clusters=1,
        rounds=1,
        epsilon0=1.0,
        delta=1e-5,
        dimension=3,
        quantity="all that one user releases",
        lower=None,
        upper=inf,
        theorem="no theorem applies",
        status="proven",
        domain_ok=True,
        note=HOSTILE,
        role="user",
    )
    return AuditReport(
        title=f"Leakage report: {HOSTILE}",
        tool={"name": "privaudit", "version": "0"},
        created="2020-01-01T00:00:00+00:00",
        seed=0,
        complete=False,
        system=SystemUnderTest(
            protocol="toy",
            protocol_version="1",
            claim_under_test=HOSTILE,
            privacy_unit="one user",
            dataset="none",
            data_is_public=True,
            users=2,
            rounds=1,
            model="none",
            dimension=3,
            parameters={"name": HOSTILE},
            actors={HOSTILE: "holds records"},
            deployment_model="Federated",
            outcome="completed",
        ),
        verdicts=(
            BreachingCoalition(
                risk="inference",
                verdict="inconclusive",
                coalition_label=f"server + {HOSTILE}",
                size=2,
                sentence=HOSTILE,
            ),
        ),
        findings=(finding,),
        not_run=(
            NotRun(attack="toy/other", coalition_label="server", status="failed", reason=HOSTILE),
        ),
        exposure=(),
        budgets=(budget,),
        uncovered=(),
        claims=(),
        utilities=(),
        figures=(),
        galleries=(),
        trust_assumptions=(HOSTILE,),
        not_tested=(),
        recommendations=(),
        limitations=(),
        warnings=(HOSTILE,),
        confidence=0.95,
        simultaneous_tests=1,
        reproduce=("privaudit audit toy",),
        digests={"run": "0" * 64},
        seconds={"total": 0.1},
    )
