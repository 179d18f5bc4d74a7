"""The audit of DisUE end to end: what its report says follows from what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import SCRIPT, Ended, in_process, privaudit

from privaudit.campaigns.disue import Config, check_inputs
from privaudit.campaigns.disue.verdicts import claim_result
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError
from privaudit.reports import AuditReport, read_report
from privaudit.reports.model import BreachingCoalition
from privaudit.scoring.estimate import Verdict

TINY = """
linking_rounds = 2
probe_users = 4
large_model_users = 0
variants = ["pairwise", "relay"]

[parameters]
rounds = 2
model = "mlp"
local_epochs = 1
distillation_iterations = 1

[federation]
users = 6
partition = "iid"
records_per_user = 12
auxiliary_records = 60
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("disue")
    (folder / "tiny.toml").write_text(TINY)
    ended = in_process(
        "audit", "disue", "-o", "out", "--config", "tiny.toml", "-j", "1", cwd=folder
    )
    return folder, ended


@pytest.fixture(scope="module")
def report(finished: tuple[Path, Ended]) -> AuditReport:
    folder, ended = finished
    assert ended.code == 0, ended.err
    return read_report(folder / "out")


slow = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCRIPT.exists(), reason=f"the package is not installed: no {SCRIPT}"),
]


class TestReport:
    pytestmark = slow

    def test_every_coalition_that_holds_ciphertexts_reads_every_model(
        self, report: AuditReport
    ) -> None:
        exact = {
            (f.coalition_label, f.setting.split(",")[0]): f.estimate.value
            for f in report.findings
            if f.attack == "cryptanalysis/pcsc-ratio" and f.metric == "models recovered exactly"
        }
        assert exact.pop(("server", "the audited run")) == 1.0
        assert exact == {
            ("1 client", "similarities pairwise"): 1.0,
            ("server + 1 client", "similarities pairwise"): 1.0,
            ("server", "similarities relay"): 1.0,
            ("1 client", "similarities relay"): 1.0,
            ("server + 1 client", "similarities relay"): 1.0,
        }
        (table,) = [t for t in report.tables if t.id == "variants"]
        assert {row[0] for row in table.rows} <= {"pairwise", "relay"}

    def test_what_does_not_apply_says_why(self, report: AuditReport) -> None:
        reasons = {(n.attack, n.coalition_label): n.reason for n in report.not_run}
        assert "saw none" in reasons["cryptanalysis/pcsc-ratio", "server"]
        assert all(n.status == "not-applicable" for n in report.not_run)

    def test_the_contradictions_of_the_paper_are_claims_with_evidence(
        self, report: AuditReport
    ) -> None:
        broken = {c.statement for c in report.claims if c.verdict == "does not hold"}
        assert any("raw similarity values" in statement for statement in broken)
        assert any("encrypted parameters" in statement for statement in broken)
        pairs = 15 * 2  # six clients, two rounds
        (seen,) = [c for c in report.claims if "raw similarity values" in c.statement]
        assert f"all {pairs} cosines" in seen.evidence

    def test_too_few_clients_to_tell_confirm_no_claim(self, report: AuditReport) -> None:
        (linked,) = [
            f
            for f in report.findings
            if f.attack == "reidentification/similarity-linking"
            and f.headline
            and f.verdict == "inconclusive"
        ]
        assert linked.n == 6
        (claim,) = [c for c in report.claims if "re-identification" in c.statement]
        assert claim.verdict == "not tested"

    def test_no_budget_is_claimed_and_every_release_is_listed(self, report: AuditReport) -> None:
        assert report.budgets == ()
        released = " / ".join(row.what for row in report.uncovered)
        for what in ("the trained model", "number of records of each class", "cosines"):
            assert what in released
        (table,) = [t for t in report.tables if t.id == "releases"]
        assert {row[0] for row in table.rows} == {1, 2}

    def test_the_defences_are_compared_with_none(self, report: AuditReport) -> None:
        (table,) = [t for t in report.tables if t.id == "defences"]
        assert [row[0] for row in table.rows] == [
            "the matrix as it is",
            "rounded to 2 decimals",
            "noise of 0.3 standard deviations",
            "noise of 1 standard deviation",
            "only who is in one cluster",
        ]

    def test_the_same_command_resumes(
        self, finished: tuple[Path, Ended], report: AuditReport
    ) -> None:
        folder, _ = finished
        again = privaudit(
            "audit", "disue", "-o", "out", "--config", "tiny.toml", "-j", "1", cwd=folder
        )
        assert again.code == 0
        assert read_report(folder / "out").findings == report.findings

    def test_another_protocol_does_not_take_its_folder(self, finished: tuple[Path, Ended]) -> None:
        folder, _ = finished
        other = in_process("audit", "pa-cfl", "-o", "out", cwd=folder)
        assert other.code == 2
        assert "another configuration" in other.err


@pytest.mark.parametrize(
    ("verdict", "result"),
    [
        ("inconclusive", "Undecided: the attacks on linkability had too few targets"),
        ("not shown", "It was not refuted"),
        ("breached", "No. Enough are: the server alone for linkability."),
    ],
)
def test_an_audit_that_cannot_tell_does_not_say_that_nothing_was_found(
    verdict: Verdict, result: str
) -> None:
    risk = BreachingCoalition(
        risk="linkability",
        verdict=verdict,
        coalition_label="the server alone",
        size=1,
        sentence="",
    )
    assert claim_result((risk,)).startswith(result)


def test_each_risk_is_told_with_the_coalition_that_breaches_it() -> None:
    risks = [("linkability", "the server alone", 2), ("reconstruction", "a single client", 1)]
    verdicts = [
        BreachingCoalition(
            risk=risk, verdict="breached", coalition_label=label, size=size, sentence=""
        )
        for risk, label, size in risks
    ]
    assert "a single client for reconstruction; the server alone for linkability." in (
        claim_result(verdicts)
    )


def test_a_federation_described_in_part_keeps_the_papers_heterogeneity() -> None:
    for values in ({}, {"federation": {"users": 30}}):
        federation = validated(Config, values, where="test").federation
        assert (federation.partition, federation.alpha) == ("dirichlet", 0.1)
    other = validated(Config, {"federation": {"partition": "iid"}}, where="test").federation
    assert other.partition == "iid"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"variants": ["relais"]}, "'relais' is not one of plain, pairwise"),
        ({"parameters": {"k1": 300}}, "k1"),
        ({"parameters": {"similarty": "relay"}}, "Did you mean 'similarity'"),
        ({"parameters": {"k1": "long"}}, "k1 = 'long'"),
    ],
)
def test_wrong_parameters_are_found_before_anything_runs(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_inputs(validated(Config, values, where="test"))
