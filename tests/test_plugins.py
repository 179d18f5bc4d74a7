"""Plug-ins are found by name; what is unknown, ambiguous or broken is named."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from privaudit import plugins
from privaudit.errors import PluginError


class Distribution:
    def __init__(self, name: str) -> None:
        self.name = name


def entry(name: str, value: str, distribution: str | None = None) -> EntryPoint:
    made = EntryPoint(name, value, "privaudit.attacks")
    if distribution is not None:
        # What importlib.metadata does when it reads a distribution.
        vars(made).update(dist=Distribution(distribution))
    return made


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the given entry points the only ones."""

    def install(*entries: EntryPoint) -> None:
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)

    return install


def test_everything_that_is_registered_loads_and_bears_its_registered_name() -> None:
    for kind, group in (("protocol", "protocols"), ("attack", "attacks")):
        names = plugins.available(kind)
        assert list(names) == sorted(names)
        assert names, f"no {group}: is privaudit installed?"
        for name in names:
            assert plugins.load(kind, name).name == name


def test_what_is_registered_is_what_the_project_file_declares() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for kind, group in plugins.GROUPS.items():
        declared = project["entry-points"].get(group, {})
        own = {
            name: entries[0].value
            for name, entries in plugins.available(kind).items()
            if entries[0].value.startswith("privaudit.")
        }
        assert own == declared


def test_an_unknown_name_is_answered_with_those_available_and_the_nearest() -> None:
    with pytest.raises(
        PluginError, match=r"available: .*fedavg, .*pa-cfl.*\. Did you mean 'fedavg'\?"
    ):
        plugins.load("protocol", "fedavgg")


def test_with_nothing_installed_the_error_says_so(installed: Any) -> None:
    installed()
    with pytest.raises(PluginError, match="is privaudit installed"):
        plugins.load("attack", "inversion/dlg")


def test_a_name_that_two_distributions_claim_is_an_error_that_names_both(installed: Any) -> None:
    installed(entry("toy/a", "json:dumps", "one-dist"), entry("toy/a", "json:loads", "other-dist"))
    with pytest.raises(PluginError, match=r"one-dist \(json:dumps\) and other-dist \(json:loads\)"):
        plugins.load("attack", "toy/a")
    assert len(plugins.available("attack")["toy/a"]) == 2


def test_one_distribution_that_is_listed_twice_on_the_path_is_one_plugin(installed: Any) -> None:
    import json

    installed(entry("toy/a", "json:dumps", "dist"), entry("toy/a", "json:dumps", "dist"))
    assert plugins.load("attack", "toy/a") is json.dumps


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("a_module_that_is_not_there:Attack", "ModuleNotFoundError"),
        ("json:NotThere", "AttributeError"),
    ],
)
def test_a_plugin_that_cannot_be_imported_names_its_distribution_and_the_cause(
    installed: Any, value: str, cause: str
) -> None:
    installed(entry("toy/a", value, "broken-dist"), entry("toy/b", "json:dumps", "good-dist"))
    with pytest.raises(PluginError, match=rf"'toy/a' of distribution broken-dist .*{cause}"):
        plugins.load("attack", "toy/a")
    # The others are not harmed.
    assert callable(plugins.load("attack", "toy/b"))


def test_a_plugin_whose_module_raises_is_broken_and_not_a_crash(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raises_on_import.py").write_text("raise RuntimeError('no GPU')")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(entry("toy/a", "raises_on_import:Attack", "broken-dist"))
    with pytest.raises(PluginError, match="no GPU"):
        plugins.load("attack", "toy/a")


def test_listing_plugins_imports_none_of_them() -> None:
    code = (
        "import sys; from privaudit import plugins\n"
        "[plugins.available(kind) for kind in plugins.GROUPS]\n"
        "print([m for m in sys.modules if m.startswith(('torch', 'privaudit.attacks'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_installed_distribution_is_found_without_any_registration_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "third_party_attack.py").write_text("class Echo:\n    name = 'toy/echo'\n")
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[privaudit.attacks]\ntoy/echo = third_party_attack:Echo\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.load("attack", "toy/echo").name == "toy/echo"
    assert "inversion/dlg" in plugins.available("attack")


def test_a_broken_plugin_does_not_keep_the_others_from_being_listed(
    installed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from privaudit.cli import main

    installed(
        entry("toy/a", "not_there:Attack", "broken-dist"),
        entry("toy/b", "privaudit.attacks.inversion:DeepLeakage", "good-dist"),
    )
    with pytest.raises(SystemExit) as ended:
        main(["list", "attacks"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert "toy/b" in out
    assert "cannot be used" in out
    assert "broken-dist" in err
    with pytest.raises(SystemExit) as ended:
        main(["explain", "toy/a"])
    assert ended.value.code == 2
    assert "broken-dist" in capsys.readouterr().err
