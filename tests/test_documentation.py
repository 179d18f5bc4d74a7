"""The documentation is true: links resolve, samples run, and commands have the options shown."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import documented
import pytest
import typer
from documented import REPOSITORY, Block, Command, anchors, blocks, links, name_of, pages

from privaudit.attacks.presets import resolve
from privaudit.cli import main
from privaudit.cli._main import app
from privaudit.configuration import parse_assignment

#: Samples that are checked (names, arguments) and not executed, with the reason.
COSTLY = {
    "pa.audit(": "an audit takes minutes; tests/test_api.py makes small ones",
    "SLURMCluster(": "needs a SLURM cluster and dask-jobqueue",
    "KubeCluster(": "needs a Kubernetes cluster and dask-kubernetes",
}
#: Commands of which only the options are checked, with the reason.
NOT_RUN = {
    "privaudit audit ": "an audit takes minutes; tests/test_audit*.py make small ones",
    "privaudit run ": "campaigns take a minute, or a cluster; tests/test_campaign*.py",
    "privaudit results quick": "of that campaign",
    "privaudit report audit --format pdf": "needs Chromium; tests/test_reports_pdf.py prints",
    "privaudit simulate pa-cfl -o run": "a smaller run lies in its place",
    "privaudit attack run --attack idlg": "an inversion; the run here has no single step",
    "privaudit attack pa-cfl-gradients --attack inversion/blind": "tests/test_blind_*.py; seconds",
    "privaudit attack pa-cfl-gradients --attack inference/labels-from-values": "the same search",
    "privaudit attack pa-cfl-gradients --attack as-permutation": "the same search",
    "privaudit attack pa-cfl-gradients --attack as-images": "the same search",
    "privaudit epsilon shuffle --eps0 1 --cluster-size 20,2000 --methods all": "ten seconds",
    "privaudit epsilon shuffle --eps0 0.5,1,2 --cluster-size 2..100": "ten seconds",
    "privaudit epsilon vector": "ten seconds; tests/test_cli_epsilon.py has smaller ones",
    "privaudit epsilon required": "ten seconds; tests/test_cli_epsilon.py has smaller ones",
    "privaudit doctor": "reads every data set that is found",
}
#: Programs of others, of which the documentation says how they are started.
FOREIGN = ("dask", "make", "python")

COMMANDS = tuple(documented.commands())
OURS = tuple(c for c in COMMANDS if c.arguments[0] == "privaudit")
PYTHON = tuple(b for b in blocks() if b.language == "python")
#: Recordings that commands start from, by the folder that another command writes.
RUNS = {
    c.arguments[c.arguments.index("-o") + 1]: c
    for c in OURS
    if c.starts("privaudit simulate") and not any(c.starts(start) for start in NOT_RUN)
}
#: The one that a sample writes instead.
OWN = next(b for b in PYTHON if 'BundleRecorder(Path("own")' in b.text)

pytestmark = pytest.mark.skipif(
    not (REPOSITORY / "docs").is_dir(), reason="no documentation here: not a checkout"
)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} does not exist"
        assert target.is_relative_to(REPOSITORY), f"{path} leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}: there are {anchors(target)}"


def test_every_page_can_be_found_from_the_first_one() -> None:
    reached, waiting = set(), [REPOSITORY / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        waiting += [(page.parent / path).resolve() for path, _ in links(page) if path]
    assert {name_of(p) for p in pages()} <= {name_of(p) for p in reached if p.exists()}


def test_a_broken_link_and_a_wrong_anchor_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c: d\n\n[x](gone.md#y) `[no](link)`\n\n```sh\n[no](link)\n```\n")
    assert list(links(page)) == [("gone.md", "y")]
    assert anchors(page) == {"a-b-c-d"}


def run_block(block: Block, names: dict[str, Any]) -> None:
    code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
    names.update(documented.given(block))
    exec(code, names)


def is_costly(block: Block) -> bool:
    return any(part in block.text for part in COSTLY)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the samples name: a run, two audits, the examples."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(REPOSITORY / "examples", folder / "examples")
    shutil.copytree(REPOSITORY / "reports" / "pa-cfl", folder / "audit")
    shutil.copytree(REPOSITORY / "reports" / "pa-cfl-mnist", folder / "audit-mnist")
    before = Path.cwd()
    os.chdir(folder)
    try:
        call(
            *("privaudit", "simulate", "pa-cfl", "-o", "run", "-q", "--rounds", "2"),
            *("--users", "6", "-p", "model=mlp", "-p", "similarity=jaccard"),
        )
        yield folder
    finally:
        os.chdir(before)


@pytest.fixture
def inside(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    # Folded words are other words.
    monkeypatch.delenv("COLUMNS", raising=False)
    return place


@pytest.mark.parametrize("page", sorted({b.page for b in PYTHON}))
def test_the_python_samples_of_a_page_run_in_order(
    page: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What earlier samples of the page imported is there; data that no sample makes are given."""
    # Samples write files, and may read what lies ready.
    for found in place.iterdir():
        if not (page == "docs/recording.md" and found.name == "run"):
            (tmp_path / found.name).symlink_to(found)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "sample"}
    for block in PYTHON:
        if block.page == page and not is_costly(block):
            run_block(block, names)


def test_what_is_too_costly_to_execute_is_still_there() -> None:
    for part, reason in COSTLY.items():
        assert reason
        assert any(part in b.text for b in PYTHON), f"no sample has {part}"
    for start in NOT_RUN:
        assert any(c.starts(start) for c in OURS), f"no command starts with {start}"


@pytest.mark.parametrize("block", [b for b in PYTHON if is_costly(b)], ids=str)
def test_a_sample_that_is_not_executed_calls_what_exists_with_arguments_it_takes(
    block: Block,
) -> None:
    names: dict[str, Any] = {"pa": importlib.import_module("privaudit")}
    checked = 0
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            root = ast.unparse(node.func).split(".")
            if root[0] not in names:
                continue
            thing = names[root[0]]
            for part in root[1:]:
                thing = getattr(thing, part)
            keywords = {k.arg: None for k in node.keywords if k.arg}
            inspect.signature(thing).bind_partial(*node.args, **keywords)
            checked += 1
    ours = "pa." in block.text
    assert checked or not ours


def context_of(command: Command) -> Any:
    """Parse a command as the program would, without running it."""
    found: Any = typer.main.get_command(app)
    name, *arguments = command.arguments
    context = None
    # Typer brings a click of its own, so that its classes are not asked for by name.
    while hasattr(found, "commands"):
        context = found.context_class(found, info_name=name, parent=context)
        name, *arguments = arguments
        assert name in found.commands, f"no command is named {name}"
        found = found.commands[name]
    return found.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("command", OURS, ids=str)
def test_a_command_has_the_options_that_are_shown(command: Command) -> None:
    assert context_of(command).params is not None


@pytest.mark.parametrize(
    "wrong", [("privaudit", "audit", "pa-cfl", "--no-such"), ("privaudit", "epsilon", "vektor")]
)
def test_a_command_with_a_wrong_option_would_be_found(wrong: tuple[str, ...]) -> None:
    with pytest.raises(Exception, match=r"No such option|no command is named"):
        context_of(Command("docs/x.md", 1, wrong))


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments[1:])
    return int(ended.value.code or 0)


def meaning(command: Command) -> Any:
    """Return what a command does: a preset's is that of the attack with the options."""
    if not command.starts("privaudit attack"):
        return command.arguments
    given = context_of(command).params
    options = dict(parse_assignment(text) for text in given.pop("option", None) or ())
    name, options = resolve(given.pop("attack"), options)
    return name, repr(sorted(options.items())), repr(sorted(given.items()))


def cheap() -> list[Command]:
    """Return the commands to run; of several that mean the same, the first."""
    first: dict[Any, Command] = {}
    for command in OURS:
        if not any(command.starts(start) for start in NOT_RUN):
            first.setdefault(meaning(command), command)
    return list(first.values())


def ended_well(command: Command) -> bool:
    # A gate that finds something has done its work; nothing else ends but with 0.
    allowed = (0, 1, 3) if command.arguments[1] == "check" else (0,)
    return call(*command.arguments) in allowed


@pytest.mark.parametrize("command", cheap(), ids=str)
def test_a_cheap_command_runs_and_prints_what_the_page_shows(
    command: Command, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argument in command.arguments[2:]:
        if argument in RUNS and not (inside / argument).exists():
            assert ended_well(RUNS[argument]), capsys.readouterr().err
        if argument == "own" and not (inside / argument).exists():
            run_block(OWN, {"__name__": "sample"})
    if command in RUNS.values():
        return
    capsys.readouterr()
    assert ended_well(command), capsys.readouterr().err
    shown = documented.outputs().get((command.page, command.line))
    if shown is not None:
        # Numbers differ a little between processors; what is measured does not.
        assert documented.words(capsys.readouterr().out) == documented.words(shown)


def test_commands_that_mean_the_same_show_the_same() -> None:
    first: dict[Any, str] = {}
    for command in OURS:
        shown = documented.outputs().get((command.page, command.line))
        if shown is not None:
            assert first.setdefault(meaning(command), shown) == shown, command


def test_other_programs_are_called_with_what_is_there() -> None:
    targets = re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)
    for command in COMMANDS:
        program, *arguments = command.arguments
        if program == "make":
            assert arguments[0] in targets, command
        elif program == "python" and arguments[0] != "-c":
            script = (REPOSITORY / arguments[0]).read_text(encoding="utf-8")
            for option in (a for a in arguments[1:] if a.startswith("--")):
                assert option in script, f"{command}: {arguments[0]} has no {option}"
        else:
            assert program in ("privaudit", *FOREIGN), command


def of_language(language: str, page: str) -> list[Block]:
    return [b for b in blocks() if b.language == language and b.page == page]


def test_configuration_files_that_are_shown_are_taken(tmp_path: Path) -> None:
    from privaudit.campaigns.grid import read_campaign
    from privaudit.cli._epsilon_events import events_of
    from privaudit.reports.policy import read_policy

    for block in blocks():
        if block.language == "toml":
            assert tomllib.loads(block.text), block
    campaign, *_ = of_language("toml", "docs/campaigns.md")
    (tmp_path / "campaign.toml").write_text(campaign.text, encoding="utf-8")
    assert read_campaign(tmp_path / "campaign.toml").cells()
    (policy,) = of_language("toml", "docs/gate.md")
    (tmp_path / "policy.toml").write_text(policy.text, encoding="utf-8")
    assert read_policy(tmp_path / "policy.toml")
    (plugin,) = of_language("toml", "docs/plugins.md")
    project = REPOSITORY / "examples" / "plugin" / "pyproject.toml"
    real = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    for group, entries in tomllib.loads(plugin.text)["project"]["entry-points"].items():
        assert entries.items() <= real[group].items()
    for ledger in of_language("json", "docs/epsilon.md"):
        (tmp_path / "ledger.json").write_text(ledger.text, encoding="utf-8")
        events, _ = events_of(tmp_path / "ledger.json")
        assert len(events) == len(json.loads(ledger.text))


def test_no_sample_needs_what_is_not_declared() -> None:
    """Every import of a sample is of this package, its dependencies, or what the page names."""
    foreign = {"dask", "dask_jobqueue", "dask_kubernetes"}
    known = {"privaudit", "numpy", "safetensors", *sys.stdlib_module_names}
    for block in PYTHON:
        for node in ast.walk(ast.parse(block.text)):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for module in modules:
                top = module.split(".")[0]
                assert top in known | foreign, f"{block}: {module}"


def navigation() -> list[str]:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r": (\S+\.md)$", text.split("\nnav:\n")[1], re.MULTILINE)


def test_the_site_leads_to_every_page() -> None:
    written = {p.relative_to(REPOSITORY / "docs").as_posix() for p in pages() if "docs" in p.parts}
    assert set(navigation()) == written
    assert len(navigation()) == len(written)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site, built without a warning."""
    pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")
    pytest.importorskip("material", reason="the extra 'docs' is not installed")
    folder = tmp_path_factory.mktemp("site")
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "WARNING" not in ended.stderr
    return folder


def test_every_link_of_the_site_leads_somewhere_and_none_asks_another_server(site: Path) -> None:
    told = {p: p.read_text(encoding="utf-8") for p in site.rglob("*.html") if p.name != "404.html"}
    assert len(told) > 30
    for page, text in told.items():
        if "Leakage report" in text[:2000]:
            # A sample report as it is: one file that asks for nothing.
            continue
        for kind, target in re.findall(r'\b(href|src)="([^"]*)"', text):
            path, _, anchor = target.partition("#")
            if target.startswith(("http", "data:", "mailto:")):
                assert kind == "href", f"{page}: {target} is fetched from another server"
                continue
            found = (page.parent / path).resolve() if path else page
            found = found / "index.html" if found.is_dir() else found
            assert found.is_file(), f"{page.relative_to(site)}: {target}"
            if anchor and found in told:
                assert f'id="{anchor}"' in told[found], f"{page.relative_to(site)}: {target}"
    assert (site / "repository" / "reports" / "pa-cfl" / "report.html").is_file()
