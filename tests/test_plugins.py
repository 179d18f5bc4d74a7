"""Plug-ins are found by name; what is unknown, ambiguous or broken is named."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from privaudit import plugins
from privaudit.errors import (
    ConfigurationError,
    CorruptRecordingError,
    PluginError,
    PrivauditWarning,
)


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


def test_every_kind_has_built_in_parts_that_bear_their_registered_names() -> None:
    for kind in ("scorer", "reader", "reporter"):
        names = plugins.available(kind)
        assert names
        for name in names:
            assert plugins.load(kind, name)().name == name
    assert {"local", "dask"} <= set(plugins.available("engine"))


def test_every_attack_is_scored_by_the_most_specific_scorers() -> None:
    """Each family has a scorer, and one that names an attack is taken in place of its family's."""
    kinds = [plugins.load("scorer", name) for name in plugins.available("scorer")]
    named = [pattern for kind in kinds for pattern in kind.attacks]
    assert len(set(named)) == len(named), "two of our own scorers claim the same attacks"
    attacks = list(plugins.available("attack"))
    for pattern in named:
        family = pattern.removesuffix("*")
        assert any(
            a == pattern or (pattern.endswith("/*") and a.startswith(family)) for a in attacks
        )
    for attack in attacks:
        assert {attack, f"{attack.split('/')[0]}/*"} & set(named), f"nothing scores {attack}"


@pytest.fixture
def scorer_plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Install scorers beside our own, for a moment."""
    from privaudit.campaigns import scorers

    (tmp_path / "more_scorers.py").write_text(
        "class Extra:\n"
        "    name, attacks = 'extra', ('inversion/*',)\n"
        "    def metrics(self, attack, run):\n"
        "        return (('extra', None, ''),)\n"
        "class Clash(Extra):\n"
        "    name = 'clash'\n"
        "    def metrics(self, attack, run):\n"
        "        return (('PSNR', None, 'dB'),)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own = tuple(entry_points(group="privaudit.scorers"))

    def install(*entries: EntryPoint) -> None:
        monkeypatch.setattr(
            plugins,
            "entry_points",
            lambda group: (*own, *entries) if group == "privaudit.scorers" else (),
        )
        scorers._registered.cache_clear()

    yield install
    scorers._registered.cache_clear()


def metric_names(attack: str) -> list[str]:
    from privaudit.campaigns.scorers import scorers_for
    from privaudit.transcript import Transcript, Truth

    class Run:
        transcript, truth, auxiliary = Transcript((), ()), Truth(), None

    class Named:
        name = attack

    return [name for name, _, _ in scorers_for(Named(), Run())]  # type: ignore[arg-type]


def test_a_scorer_of_a_plug_in_adds_its_metrics_behind_ours(scorer_plugins: Any) -> None:
    before = metric_names("inversion/dlg")
    scorer_plugins(entry("extra", "more_scorers:Extra", "third-party"))
    assert metric_names("inversion/dlg") == [*before, "extra"]
    # An attack that a scorer of ours names is not one of its family to others.
    assert "extra" not in metric_names("inversion/blind-coordinates")


def test_two_metrics_of_one_name_are_an_error_that_names_the_scorers(scorer_plugins: Any) -> None:
    scorer_plugins(entry("clash", "more_scorers:Clash", "third-party"))
    with pytest.raises(PluginError, match=r"images, clash have two metrics named 'PSNR'"):
        metric_names("inversion/dlg")


def test_a_broken_scorer_is_a_warning_and_the_others_score(scorer_plugins: Any) -> None:
    before = metric_names("inversion/dlg")
    scorer_plugins(entry("broken", "not_there:Scorer", "broken-dist"))
    with pytest.warns(PrivauditWarning, match=r"broken-dist.*its metrics are missing"):
        assert metric_names("inversion/dlg") == before


def test_a_recording_that_nothing_or_more_than_one_recognises_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from privaudit.campaigns.readers import reader_for

    with pytest.raises(CorruptRecordingError, match="readers privaudit-view recognises it"):
        reader_for(tmp_path)
    (tmp_path / "run").mkdir()
    with pytest.raises(CorruptRecordingError, match=r"no such file or folder\. Did you mean 'run'"):
        reader_for(tmp_path / "runn")
    (tmp_path / "run" / "manifest.json").write_text("{}")
    assert reader_for(tmp_path).name == "privaudit-view"
    ours = "privaudit.recording:BundleReader"
    monkeypatch.setattr(
        plugins,
        "entry_points",
        lambda group: (entry("a", ours, "ours"), entry("b", ours, "theirs")),
    )
    with pytest.raises(PluginError, match="recognised by the readers"):
        reader_for(tmp_path)


def test_a_broken_reporter_or_engine_is_an_error_when_it_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from reports_sample import sample_report

    from privaudit.campaigns.grid.offered import EngineOptions, engine_of
    from privaudit.reports import write_report

    own = tuple(entry_points(group="privaudit.reporters"))
    broken = entry("xml", "not_there:Reporter", "broken-dist")
    monkeypatch.setattr(plugins, "entry_points", lambda group: (*own, broken))
    assert write_report(sample_report(), tmp_path, formats=("md",))
    with pytest.raises(PluginError, match="broken-dist"):
        write_report(sample_report(), tmp_path, formats=("xml",))
    with pytest.raises(PluginError, match="broken-dist"):
        engine_of("xml", EngineOptions())
    with pytest.raises(PluginError, match=r"no engine is named 'loca'"):
        engine_of("loca", EngineOptions())


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("local", {"address": "host:1"}, "--address goes with"),
        ("dask", {"seconds": 1.0}, "dask worker --memory-limit"),
        ("dask", {"megabytes": 1.0}, "dask worker --memory-limit"),
    ],
)
def test_an_engine_refuses_what_it_cannot_keep(
    name: str, options: dict[str, Any], said: str
) -> None:
    from privaudit.campaigns.grid.offered import EngineOptions, engine_of

    with pytest.raises(ConfigurationError, match=said):
        engine_of(name, EngineOptions(**options))
