"""Names of the literature stand for registered attacks with options, everywhere alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import privaudit
from privaudit import plugins
from privaudit.attacks.presets import PRESETS, resolve
from privaudit.configuration import constructed
from privaudit.errors import ConfigurationError, PluginError

PAGE = Path(__file__).parents[1] / "docs" / "attacks" / "presets.md"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_registered_attack_with_options_it_has(name: str) -> None:
    attack, options = resolve(name, {})
    assert name not in plugins.available("attack"), "a preset would be hidden"
    made = constructed(plugins.load("attack", attack), options, where=name)
    assert made.name == attack
    assert all(getattr(made, option) == value for option, value in options.items())


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_says_what_a_preset_stands_for(name: str) -> None:
    options = "".join(f" {k}={str(v).lower()}" for k, v in PRESETS[name].options.items())
    assert f"| `{name}` | `{PRESETS[name].attack}{options}` |" in PAGE.read_text("utf-8")


def test_no_preset_is_the_last_part_of_an_attacks_name() -> None:
    last = {name.rsplit("/", 1)[-1] for name in plugins.available("attack")}
    assert not last & set(PRESETS)


def test_options_given_beside_a_preset_come_first() -> None:
    attack, options = resolve("inverting-gradients", {"iterations": 5, "restarts": 1})
    assert attack == "inversion/cosine"
    assert options == {"signed": True, "learning_rate": 0.1, "iterations": 5, "restarts": 1}


def test_registered_names_and_their_last_parts_stand_for_themselves() -> None:
    assert resolve("inversion/dlg", {"restarts": 0}) == ("inversion/dlg", {"restarts": 0})
    assert resolve("dlg", {}) == ("inversion/dlg", {})


def test_an_unknown_name_is_answered_with_the_nearest_preset() -> None:
    with pytest.raises(PluginError, match="Did you mean 'inverting-gradients'"):
        resolve("invertin-gradients", {})


def test_an_attack_by_its_preset_gives_what_it_gives_by_its_options() -> None:
    run = privaudit.simulate(
        "fedavg",
        parameters={"rounds": 1, "model": "lenet", "update": "gradient"},
        federation={"users": 2, "partition": "single-record", "auxiliary_records": 20},
    )
    one = privaudit.attack(run, "idlg", coalition=["server"], options={"iterations": 3})
    other = privaudit.attack(
        run, "inversion/dlg", coalition=["server"], options={"iterations": 3, "labels": "idlg"}
    )
    assert one == other
    assert one.name == "inversion/dlg"
    with pytest.raises(ConfigurationError, match="no option 'iteration'"):
        privaudit.attack(run, "idlg", coalition=["server"], options={"iteration": 3})


def test_the_command_line_explains_and_lists_presets() -> None:
    script = Path(sys.executable).parent / "privaudit"
    told = subprocess.run([script, "explain", "lira"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("preset lira: inference/membership method=likelihood-ratio\n")
    assert "Carlini" in told.stdout
    assert "\nattack inference/membership, version " in told.stdout
    listed = subprocess.run([script, "list", "presets", "--json"], capture_output=True, check=True)
    for name in PRESETS:
        assert f'"{name}"'.encode() in listed.stdout


def test_a_campaigns_cells_are_those_of_the_attack_that_a_preset_stands_for() -> None:
    from privaudit.campaigns.grid.definition import AttackPlan

    plan = AttackPlan.model_validate(
        {"name": "idlg", "options": {"iterations": [5, 9]}, "coalitions": ["server"]}
    )
    assert plan.name == "inversion/dlg"
    assert plan.options == {"labels": "idlg", "iterations": [5, 9]}
