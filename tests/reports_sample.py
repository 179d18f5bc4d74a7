"""A realistic report of an audit of PA-CFL, with rows of every kind (figures are made up)."""

from __future__ import annotations

from functools import cache

import numpy as np
from reports_sample_evidence import USERS, budgets, exposure, gallery, utilities

from privaudit.reports.figures import (
    epsilon_by_cluster_size,
    exposure_bars,
    lines,
    psnr_by_k,
)
from privaudit.reports.model import (
    AuditReport,
    BreachingCoalition,
    Claim,
    Finding,
    Interval,
    MeasuredTable,
    NotRun,
    SystemUnderTest,
    UncoveredRelease,
)

HOSTILE = "<script>alert(1)</script>|a\n\n# b `c` ![x](http://evil.example/x.png) \x1b[2J $\\frac"


def _interval(value: float, half: float, high: float = float("inf")) -> Interval:
    return Interval(value=value, low=value - half, high=min(high, value + half))


def _finding(number: int, **changes: object) -> Finding:
    rng = np.random.default_rng(number)
    base: dict[str, object] = {
        "id": f"F{number}",
        "risk": "reconstruction",
        "title": "Gradient inversion",
        "summary": "Images rebuilt from one round's update, matched to their owners.",
        "attack": "inversion/cosine",
        "attack_version": "1",
        "coalition": ("AS",),
        "coalition_label": "the aggregation server",
        "coalition_size": 1,
        "capabilities": ("model-architecture", "single-local-step", "true-labels"),
        "setting": "round 1, batch of 1, k = 0.0025 d",
        "metric": "PSNR",
        "estimate": _interval(9.81, 0.42),
        "baseline": _interval(9.70, 0.38),
        "control": _interval(9.66, 0.40),
        "confidence": 0.9955,
        "n": 20,
        "failed": 0,
        "method": "percentile bootstrap, 10,000 draws",
        "verdict": "not shown",
        "headline": False,
        "worst_target": "user-7",
        "worst_value": 11.2,
        "per_target": dict(zip(USERS, map(float, 9.8 + rng.normal(0, 0.8, 20)), strict=True)),
        "parameters": {"iterations": 300, "learning_rate": 0.1, "prior": {"tv": 1e-4}},
        "seconds": 12.4,
        "unit": "dB",
    }
    return Finding.model_validate({**base, **changes})


def _proportion(number: int, value: float, **changes: object) -> Finding:
    hits = round(20 * value)
    return _finding(
        number,
        **{
            "metric": "share of targets",
            "unit": "proportion",
            "method": "Clopper-Pearson",
            "estimate": _interval(value, 0.14, 1.0),
            "baseline": Interval(value=0.05, low=0.0013, high=0.249),
            "control": Interval(value=0.05, low=0.0013, high=0.249),
            "worst_target": "user-3",
            "worst_value": 1.0,
            "per_target": {user: float(i < hits) for i, user in enumerate(USERS)},
            **changes,
        },
    )


def _findings() -> tuple[Finding, ...]:
    with_user = {
        "coalition": ("AS", "user-0"),
        "coalition_label": "the aggregation server with one user",
        "coalition_size": 2,
    }
    servers = {
        "coalition": ("AS", "MS"),
        "coalition_label": "both servers",
        "coalition_size": 2,
    }
    clustering = {
        "coalition": ("MS",),
        "coalition_label": "the clustering server",
    }
    return (
        _finding(1),
        _finding(
            2,
            **with_user,
            verdict="breached",
            headline=True,
            estimate=_interval(24.6, 1.9),
            worst_target="user-12",
            worst_value=41.3,
        ),
        _finding(
            3,
            **servers,
            verdict="breached",
            estimate=_interval(31.2, 2.2),
            attack="inversion/dlg",
            title="Deep leakage from gradients",
            failed=3,
            worst_value=float("inf"),
        ),
        _finding(4, **clustering, attack="inversion/rank-profile", title="Inversion from ranks"),
        _proportion(
            5,
            1.0,
            title="Recovery of the update's values",
            attack="collusion/update-recovery",
            risk="reconstruction",
            verdict="breached",
            **with_user,
        ),
        _proportion(
            6,
            0.95,
            **clustering,
            title="Labels read off the index sequence",
            attack="inference/labels-from-permutation",
            risk="inference",
            verdict="breached",
            headline=True,
        ),
        _proportion(
            7,
            0.25,
            title="Labels from shuffled values",
            attack="inference/labels-from-permutation",
            risk="inference",
            verdict="inconclusive",
        ),
        _proportion(
            8,
            0.9,
            **clustering,
            title="Linking index sequences across rounds",
            attack="reidentification/permutation-linking",
            risk="linkability",
            verdict="breached",
            headline=True,
        ),
        _proportion(
            9,
            0.05,
            title="Linking shuffled values across rounds",
            attack="reidentification/permutation-linking",
            risk="linkability",
            control=None,
            worst_value=0.0,
        ),
        _finding(
            10,
            title="Top-k matching",
            attack="inversion/top-k",
            estimate=Interval(value=float("nan"), low=float("nan"), high=float("nan")),
            verdict="inconclusive",
            failed=20,
        ),
    )


@cache
def sample_report() -> AuditReport:
    """Return the report."""
    rounds, rows, known = utilities(), budgets(), exposure()
    ks = (0.0025, 0.01, 0.1, 0.5, 1.0)
    return AuditReport(
        title="What PA-CFL leaks about its users",
        tool={
            "name": "privaudit",
            "version": "0.1.0",
            "python": "3.11.7",
            "numpy": "2.4.6",
            "torch": "2.14.1",
            "cpu_cores": 2,
        },
        created="2026-11-29 21:40 UTC",
        seed=7,
        complete=False,
        system=SystemUnderTest(
            protocol="PA-CFL",
            protocol_version="as published",
            claim_under_test=(
                "Neither of two servers that do not collude, nor users who collude with one of "
                "them, can recover a user's complete update or private information."
            ),
            privacy_unit="one user in one cluster, for a whole update",
            dataset="scikit-learn digits",
            data_is_public=True,
            users=20,
            rounds=10,
            model="CNN",
            dimension=582_026,
            parameters={
                "epsilon0": 1.0,
                "k": 0.0025,
                "local_epochs": 3,
                "noise": {"clip": "median", "scale": "2Φ/ε₀"},
                "update_bytes": 4_656_208,
            },
            actors={
                "AS": "aggregates the updates",
                "MS": "shuffles and clusters",
                "user": "trains on its own data",
            },
            deployment_model="Shuffle",
            outcome="diverged at round 3 with ε₀ = 1",
        ),
        claim_result="No: one server with one user rebuilds records that it must not see.",
        budget_condition="These bounds hold only for a threshold fixed in advance.",
        tables=(
            MeasuredTable(
                id="defences",
                title="Linking by defence",
                caption="Share of users linked when the server sees a changed similarity matrix.",
                columns=("Defence", "#Linked", "#Users"),
                rows=(("none", 0.95, 20), ("rounded", 0.9, 20), ("labels only", None, 20)),
            ),
        ),
        verdicts=(
            BreachingCoalition(
                risk="reconstruction",
                verdict="breached",
                coalition_label="the aggregation server with one user",
                size=2,
                sentence=(
                    "The aggregation server and one user together rebuild recognisable images of "
                    "other users' data from a single round."
                ),
            ),
            BreachingCoalition(
                risk="inference",
                verdict="breached",
                coalition_label="the clustering server",
                size=1,
                sentence="The clustering server alone reads a user's labels off its sequences.",
            ),
            BreachingCoalition(
                risk="linkability",
                verdict="inconclusive",
                coalition_label="the clustering server",
                size=1,
                sentence="Index sequences of one user are similar over rounds; ten rounds are few.",
            ),
            BreachingCoalition(
                risk="singling-out",
                verdict="not tested",
                coalition_label="",
                size=0,
                sentence="No attack on singling out is part of this version.",
            ),
        ),
        findings=_findings(),
        not_run=(
            NotRun(
                attack="inversion/dlg",
                coalition_label="the clustering server",
                status="not-applicable",
                reason="needs per-client-updates, which this coalition does not hold",
            ),
            NotRun(
                attack="collusion/update-recovery",
                coalition_label="both servers with nineteen users",
                status="failed",
                reason="ran out of time after 600 s",
            ),
        ),
        exposure=known,
        budgets=rows,
        uncovered=(
            UncoveredRelease(
                what="the values of the k largest coordinates",
                observers=("the aggregation server",),
                values_per_user_and_round=1455,
                consequence="exact values; placed as soon as one user tells the permutation",
            ),
            UncoveredRelease(
                what="the order of the k largest coordinates",
                observers=("the clustering server",),
                values_per_user_and_round=1455,
                consequence="reveals labels and links rounds",
            ),
        ),
        claims=(
            Claim(
                statement="The clusters found are those of the data's distributions.",
                source="section 7.4.2",
                verdict="partly reproduced",
                evidence="adjusted Rand index 1.00, 0.92 and 1.00 over three seeds in round one",
            ),
            Claim(
                statement="Accuracy is 99.70 % at ε₀ = 1.",
                source="section 7.6, Figure 9",
                verdict="not reproduced",
                evidence="training diverges at round 3 with noise as written; 93 % at ε₀ = 10",
            ),
            Claim(
                statement="The aggregation server alone cannot map important values to places.",
                source="Proposition 2",
                verdict="reproduced",
                evidence="0 % of coordinates placed, 20 of 20 targets",
            ),
            Claim(
                statement="DTW costs less than the alternatives.",
                source="section 7.5",
                verdict="not tested",
                evidence="no timing was taken",
            ),
        ),
        utilities=rounds,
        figures=(
            epsilon_by_cluster_size(rows, rounds=1),
            exposure_bars(known),
            psnr_by_k(
                ks,
                {
                    "aggregation server": [_interval(v, 0.5) for v in (9.8, 9.9, 10.0, 10.4, 11.0)],
                    "with one user": [_interval(v, 1.5) for v in (24.6, 26.0, 30.1, 36.0, 44.0)],
                },
                baseline=9.7,
                id="psnr-by-k",
                caption="Intervals are 99.55 % bootstrap intervals over 20 targets.",
            ),
            lines(
                rounds[0],
                id="accuracy",
                caption="A cross marks the last round before a run stopped being finite.",
                limits=(0.0, 1.0),
            ),
        ),
        galleries=(gallery(),),
        trust_assumptions=(
            "The two servers do not share what they receive.",
            "No user tells a server the permutation that all users share.",
            "The clustering server shuffles, and keeps no record of who sent which value.",
        ),
        not_tested=(
            "Active attacks: every party follows the protocol in this audit.",
            "Attacks on the transport between the parties.",
        ),
        recommendations=(
            "Do not run this protocol where a user may collude with the aggregation server.",
            "Add noise to the important part as well, and account for it.",
        ),
        limitations=("20 users and 10 rounds; a larger run may leak more or less.",),
        warnings=("inversion/top-k failed on every target; see the findings.",),
        confidence=0.95,
        simultaneous_tests=11,
        reproduce=(
            "privaudit audit pa-cfl --seed 7 -o audit",
            "privaudit report audit --format html,json,md",
        ),
        digests={"transcript": "9f" * 32, "digits": "3c" * 32},
        seconds={"simulation": 21.3, "attacks": 95.2, "accounting": 4.04, "report": 0.912},
    )
