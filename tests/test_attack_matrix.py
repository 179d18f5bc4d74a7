"""Every attack on every kind of view gives results or says why not, and the page agrees."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from attack_matrix import RUNS, attack_of, every, outcome, own_attacks, row

from privaudit import plugins

pytestmark = pytest.mark.usefixtures("brief_fits")

PAGE = Path(__file__).parents[1] / "docs" / "attacks" / "applicability.md"
PLUGIN = Path(__file__).parents[1] / "examples" / "plugin" / "src"


def check(name: str, attack) -> None:
    for view in every():
        found = outcome(attack, view)
        assert found.status in ("measured", "not-applicable"), (view.label, found.reason)
        if found.status == "not-applicable":
            assert len(found.reason.split()) > 5, (view.label, found.reason)
        # A figure whose scores are none is left out, and the diagnostics name it.
        for triple in found.triples:
            values = np.array([*triple.attack.per_target.values()])
            assert np.isfinite(values).all(), (view.label, triple.name)


@pytest.mark.parametrize("name", plugins.available("attack"))
def test_every_attack_on_every_view_gives_results_or_says_why_not_as_the_page_has_it(
    name: str,
) -> None:
    check(name, attack_of(name))
    if name in own_attacks():
        check_page(name)


def check_page(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert list(sections) == list(RUNS)
    for run, section in sections.items():
        written = [line for line in section.splitlines() if f"| `{name}` |" in line]
        assert written == [line for line in [row(name, run)] if line], (
            f"{PAGE.name}, {run}: make it anew with python tests/attack_matrix.py"
        )


def test_the_page_names_registered_attacks_and_all_views() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(.+?)` ", text, re.M)) <= set(own_attacks())
    for run in RUNS:
        names = [view.who for view in every() if view.run == run]
        assert f"## {run}\n\n| attack | {' | '.join(names)} |" in text


@pytest.mark.skipif(not PLUGIN.is_dir(), reason=f"no {PLUGIN}: not a checkout")
def test_an_attack_of_a_plug_in_is_held_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    module = pytest.importorskip("privaudit_bias_label")
    kinds = [k for k in vars(module).values() if isinstance(k, type) and hasattr(k, "reads")]
    assert len(kinds) == 1
    check(kinds[0].name, kinds[0]())
    sys.modules.pop("privaudit_bias_label")


def test_every_own_attack_runs_on_some_view_but_those_that_need_an_active_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = set(own_attacks()) - set(re.findall(r"^\| `(.+?)` ", text, re.M))
    assert missing == {
        "cryptanalysis/pcsc-malicious-modulus",
        "cryptanalysis/pcsc-inversion",
        "inference/similarity-probes",
        "indices/integer-grid",
    }
