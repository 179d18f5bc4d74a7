"""A report says which parameters the audit chose itself, because the protocol's do not suit."""

from __future__ import annotations

from privaudit.campaigns.assembly import fitted_parameters
from privaudit.campaigns.pa_cfl.config import default_parameters
from privaudit.protocols.pa_cfl import PACFLConfig


def told(dataset: str, **given: object) -> str:
    return " ".join(fitted_parameters(default_parameters(dataset), given, PACFLConfig, dataset))


def test_what_the_audit_chose_is_told_with_the_protocols_default() -> None:
    said = told("digits")
    assert "learning_rate = 0.1 (by default 0.01)" in said
    assert "batch_size = 16 (by default 64)" in said
    assert "rounds" not in said


def test_what_was_asked_for_is_not_the_audits_choice() -> None:
    assert "batch_size" not in told("digits", batch_size=16)
    assert told("digits", batch_size=64, learning_rate=0.01) == ""


def test_where_the_protocols_defaults_are_taken_nothing_is_told() -> None:
    assert told("mnist") == ""
