"""The words of a first page: conditions, reasons, who is meant, and nothing that reads as code."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from reports_sample import sample_report

from privaudit import plugins
from privaudit.campaigns.disue.verdicts import verdicts_of as disue_verdicts
from privaudit.campaigns.pa_cfl.verdicts import claim_result
from privaudit.campaigns.pa_cfl.verdicts import verdicts_of as pa_cfl_verdicts
from privaudit.campaigns.pq_mds.adversaries import LABELS
from privaudit.campaigns.pq_mds.verdicts import claim_result as pq_mds_claim_result
from privaudit.campaigns.pq_mds.verdicts import verdicts_of as pq_mds_verdicts
from privaudit.campaigns.recordings import _ledger
from privaudit.campaigns.risks import risk_verdict
from privaudit.campaigns.runs import RecordedRun
from privaudit.docstrings import summary_line
from privaudit.reports._opening import make_opening
from privaudit.reports.model import (
    AuditReport,
    BreachingCoalition,
    CellCounts,
    Finding,
    Interval,
)
from privaudit.reports.policy import Policy, judge
from privaudit.scoring.estimate import Estimate, Scores, estimate
from privaudit.scoring.estimate import judge as judge_figure
from privaudit.transcript import Transcript

TEMPLATE = next(f for f in sample_report().findings if f.unit == "proportion")


def finding(value: float, low: float, high: float, **changes: Any) -> Finding:
    """A headline figure beside guessing 0 [0, 0.255]."""
    base: dict[str, Any] = {
        "risk": "inference",
        "title": "Labels",
        "summary": "Labels are read off.",
        "metric": "dominant label",
        "estimate": Interval(value=value, low=low, high=high),
        "baseline": Interval(value=0.0, low=0.0, high=0.255),
        "verdict": "inconclusive",
        "headline": True,
        "n": 21,
        "higher_is_leakier": True,
    }
    return TEMPLATE.model_copy(update={**base, **changes})


def report(*findings: Finding, verdict: str = "breached", **changes: Any) -> AuditReport:
    row = BreachingCoalition.model_validate(
        {
            "risk": "inference",
            "verdict": verdict,
            "coalition_label": "the first server alone",
            "size": 1,
            "sentence": "",
        }
    )
    update = {"findings": findings, "verdicts": (row,), **changes}
    return sample_report().model_copy(update=update)


def facts(given: AuditReport, at: int = 0) -> dict[str, str]:
    (headline,) = make_opening(given, digest="").headlines
    return {name: text.replace("\xa0", " ") for name, text in headline.measured[at].facts}


# Reasons and ranges.


def test_the_range_of_guessing_and_the_reason_stand_beside_an_open_figure() -> None:
    told = facts(report(finding(0.381, 0.12, 0.705, reason="the two ranges overlap")))
    assert told["Guessing alone"] == "0 % (0 to 25.5)"
    assert told["Why inconclusive"] == "The two ranges overlap"
    sure = finding(0.9, 0.6, 1.0, verdict="breached")
    assert "Why inconclusive" not in facts(report(sure))


def test_a_verdict_says_why_it_is_open_and_what_guessing_may_reach() -> None:
    reason = "not beyond the range of guessing, but on 19 targets, and 'not shown' takes 20 or more"
    row = risk_verdict("inference", [finding(0.1, 0.0, 0.4, n=19, reason=reason)], words={})
    assert row.verdict == "inconclusive"
    assert "10% of 19 targets, where prior knowledge alone reaches 0%, range 0% to 26%." in (
        row.sentence
    )
    assert f"Inconclusive: {reason}." in row.sentence


def test_targets_are_counted_only_where_each_was_a_success_or_none() -> None:
    given = {"verdict": "breached", "unit": "proportion", "metric": "coordinate accuracy"}
    share = finding(0.25, 0.2, 0.3, per_target={"user-1": 0.25, "user-2": 0.25}, **given)
    sentence = risk_verdict("inference", [share], words={}).sentence
    assert "reaches a coordinate accuracy of 25% over" in sentence
    counted = finding(0.5, 0.2, 0.8, per_target={"user-1": 1.0, "user-2": 0.0}, **given)
    assert "succeeds for 50% of" in risk_verdict("inference", [counted], words={}).sentence


def test_sentences_have_articles_and_no_empty_setting() -> None:
    energy = finding(
        0.9, 0.8, 1.0, verdict="breached", unit="", metric="energy known", setting="",
        summary="Read without a full stop",
    )  # fmt: skip
    sentence = risk_verdict("inference", [energy], words={}).sentence
    assert "reaches an energy known of 0.9" in sentence
    assert "Setting" not in sentence
    assert sentence.endswith("Read without a full stop.")
    similarity = energy.model_copy(update={"metric": "SSIM", "verdict": "not shown"})
    assert "an SSIM of" in risk_verdict("inference", [similarity], words={}).sentence


def test_where_lower_is_worse_the_page_says_so_and_an_area_names_no_part_of_itself() -> None:
    distance = finding(0.1, 0.05, 0.2, unit="", higher_is_leakier=False, metric="distance")
    assert facts(report(distance))["Average"].endswith("the lower, the worse")
    area = finding(0.6, 0.5, 0.7, unit="", metric="membership AUC", worst_value=1.45)
    told = facts(report(area))
    assert "1.45" not in told["Worst affected"]
    assert "0.5 is guessing" in told["Average"]


# What reads breached and decides nothing.


def test_another_measure_or_setting_that_breaches_by_itself_is_told_and_decides_nothing() -> None:
    open_one = finding(0.5, 0.2, 0.8, setting="ε₀ = 1")
    overlap = finding(
        0.639, 0.583, 0.69, metric="label overlap", unit="", setting="ε₀ = 1", verdict="breached",
        headline=False, confidence=0.95,
    )  # fmt: skip
    elsewhere = finding(0.7, 0.46, 0.88, setting="ε₀ = 30", verdict="breached", headline=False)
    told = facts(report(open_one, overlap, elsewhere))
    assert told["Verdict"] == "inconclusive"
    assert told["Besides"].startswith("label overlap 0.639 (0.583 to 0.690) against 0 (0 to 0.255)")
    assert "at 95 % confidence; no verdict rests on this" in told["Besides"]
    assert "(ε₀ = 30)" in told["In another setting"]
    decided = open_one.model_copy(update={"verdict": "breached"})
    assert {"Besides", "In another setting"}.isdisjoint(facts(report(decided, overlap, elsewhere)))


def test_a_campaign_tells_which_figures_breach_by_themselves_where_no_verdict_does() -> None:
    head = finding(0.5, 0.1, 0.9, protocol="p", chosen_from=10)
    lead = finding(
        0.639, 0.583, 0.69, metric="label overlap", unit="", headline=False, verdict="breached",
        protocol="p", attack="inference/labels",
    )  # fmt: skip
    counts = CellCounts(runs=1, measured=10, not_applicable=0, failed=0, pending=0)

    def note(*found: Finding) -> str:
        overview = make_opening(report(*found, cells=counts), digest="").overview
        assert overview is not None
        return overview.verdicts.note.replace("\xa0", " ")

    assert f"inference by {lead.coalition_label} on p (inference/labels: label overlap" in note(
        head, lead
    )
    assert "no verdict" in note(head, lead)
    assert "label overlap" not in note(head.model_copy(update={"verdict": "breached"}), lead)
    assert "no verdict" not in note(head)


# Who is meant.


def test_all_coalitions_of_the_smallest_size_are_named_in_words() -> None:
    first = finding(0.9, 0.6, 1.0, verdict="breached", coalition_label="A", coalition_size=1)
    second = first.model_copy(update={"coalition_label": "B"})
    larger = first.model_copy(update={"coalition_label": "A + B", "coalition_size": 2})
    words = {"A": "the first server alone", "B": "the second server alone"}
    opening = make_opening(report(first, second, larger, coalition_words=words), digest="")
    (headline,) = opening.headlines
    assert headline.coalition == (
        "Smallest coalitions that breach it (1 party each): the first server alone; the second "
        "server alone."
    )
    assert headline.measured[1].title == "Labels: the second server alone"
    assert opening.summary[-1] == (
        "The smallest coalitions that breach a risk are one party alone: the first server alone "
        "(inference); the second server alone (inference)."
    )
    alone = make_opening(report(first, larger, coalition_words=words), digest="")
    assert alone.headlines[0].coalition == (
        "Smallest coalition that breaches it: the first server alone (1 party)."
    )
    # Without words nothing is listed twice under two names.
    assert (
        "Smallest coalition that" in make_opening(report(first), digest="").headlines[0].coalition
    )


def test_of_adversaries_alike_the_leakiest_stands_first() -> None:
    known = finding(0.29, 0.19, 0.41, verdict="breached", coalition_label=LABELS["server_known"])
    similar = finding(0.32, 0.21, 0.44, verdict="breached", coalition_label=LABELS["server_aux"])
    for found in ([known, similar], [similar, known]):
        row = next(v for v in pq_mds_verdicts(found) if v.risk == "inference")
        assert row.sentence.startswith("A server that has similar records and knows no row")
        assert "32% of 21 targets" in row.sentence


def test_the_weakest_adversary_that_suffices_stands_in_the_answer_and_others_are_counted() -> None:
    found = [
        finding(0.9, 0.8, 1.0, verdict="breached", id=name, coalition_label=LABELS[name], risk=risk)
        for risk, names in {
            "linkability": ("server_known", "outsider_known", "server_aux", "outsider_aux"),
            "inference": ("hbc_party",),
        }.items()
        for name in names
    ]
    rows = pq_mds_verdicts(found)
    told = pq_mds_claim_result(rows, found)
    assert told.startswith(
        "No. One party that knows the attribute of some rows is enough for inference; a stranger "
        "who got the uploads, has similar records and knows no row is enough for linkability. "
    )
    (row,) = [v for v in rows if v.risk == "linkability"]
    # The page lists them beside their figures.
    assert row.sentence.endswith(" 3 other adversaries breach the same risk.")
    assert "refuted" in pq_mds_claim_result((), ())


def test_the_reason_of_an_open_figure_contradicts_itself_in_no_word() -> None:
    def share(k: int) -> Estimate:
        hits = {f"t{i}": float(i < k) for i in range(10)}
        return estimate(Scores("m", "proportion", hits), confidence=0.95)

    verdict, reason = judge_figure(replace(share(5), baseline=share(0)))
    assert verdict == "inconclusive"
    assert "its own range reaches into that of guessing" in reason


def test_membership_is_inference_in_every_report() -> None:
    for verdicts in (disue_verdicts([]), pa_cfl_verdicts([], [])):
        (row,) = [v for v in verdicts if v.risk == "singling-out"]
        assert "isolates" in row.sentence
        assert "(membership)" in row.sentence
        assert "inference" in row.sentence


# The budget.


@pytest.mark.parametrize("fixed", [True, False])
def test_the_noised_part_is_told_with_its_condition_and_in_total(fixed: bool) -> None:
    row = next(b for b in sample_report().budgets if b.role == "bracket")
    rows = [
        row.model_copy(update={"rounds": rounds, "role": role, "upper": upper})
        for rounds, role, upper in (
            (1, "bracket", 3.271), (2, "bracket", 4.9), (1, "local", 4.73), (2, "local", 7.08),
        )
    ]  # fmt: skip
    told = claim_result((), rows, findings=(), fixed_threshold=fixed)
    assert "at most 3.28 in one round and at most 4.9 in total over 2 rounds" in told
    assert "unshuffled, at most 4.73 in one round and at most 7.08 in total over 2 rounds" in told
    assert ("For a clipping threshold fixed in advance" in told) == (not fixed)
    assert ("no bound holds as it stands" in told) == (not fixed)
    assert "is differentially private" not in told


def test_the_claim_names_every_party_that_breaches_it_alone() -> None:
    both = [
        finding(0.9, 0.6, 1.0, verdict="breached", coalition_label=label, coalition_size=1)
        for label in ("MS", "AS")
    ]
    told = claim_result(pa_cfl_verdicts(both, []), (), findings=both, fixed_threshold=True)
    assert told == (
        "Not as stated: the management server alone breaches it in this audit (inference); the "
        "aggregation server alone breaches it in this audit (inference)."
    )


def test_a_condition_of_the_budget_stands_with_it() -> None:
    given = sample_report().model_copy(update={"budget_condition": "Only if."})
    budget = make_opening(given, digest="").budget
    (at,) = [i for i, text in enumerate(budget) if text == "Only if."]
    assert "The part that is noised costs" in " ".join(budget[:at])


def test_a_recording_of_an_unknown_protocol_is_not_said_to_have_no_randomised_release() -> None:
    transcript = cast(Transcript, SimpleNamespace(public={}, messages=()))
    run = RecordedRun(transcript, None, None, {}, "0" * 64, True, "")
    ledger = _ledger(run, "house-fl", 1e-5)
    (told,) = ledger.statements
    assert "house-fl is not a protocol that is installed here" in told
    assert "is open" in told
    assert ledger.unit == "not stated in this recording"
    none = sample_report().model_copy(update={"budgets": (), "uncovered": ()})
    assert "because no release is randomised" not in " ".join(make_opening(none, digest="").budget)


# Texts of other parts.


def test_summaries_of_attacks_hold_no_markup() -> None:
    for name in plugins.available("attack"):
        line = summary_line(plugins.load("attack", name))
        assert line, name
        assert not [mark for mark in (":math:", "\\", "``") if mark in line], name


def test_a_policy_suggests_only_other_names_and_counts_rounds_in_words() -> None:
    given = report(finding(0.1, 0.0, 0.2), verdict="not tested")

    def evidence(risk: str) -> str:
        policy = Policy.model_validate({"risks": {risk: {"maximum": 1.0}}})
        return judge(given, policy)[-1].evidence

    assert "Did you mean" not in evidence("inference")
    assert "did not test it" in evidence("inference")
    assert "Did you mean 'inference'?" in evidence("inferense")
    row = next(b for b in sample_report().budgets if b.role == "bracket")
    once = given.model_copy(update={"budgets": (row.model_copy(update={"rounds": 1}),)})
    policy = Policy.model_validate({"epsilon": {"maximum": 9, "level": "bracket"}})
    assert "over 1 round," in judge(once, policy)[-1].evidence
