"""Commands that look: verify, views, list, explain, doctor."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from privaudit.cli import _options as options
from privaudit.cli._console import count, emit_json, human_bytes, table
from privaudit.cli._pages import page_of
from privaudit.docstrings import plain, summary_line
from privaudit.errors import (
    ConfigurationError,
    CorruptRecordingError,
    PluginError,
    did_you_mean,
)

if TYPE_CHECKING:
    from privaudit.attacks.presets import Preset

__all__ = ["bundle_of", "register", "run_at"]

RunDir = Annotated[Path, typer.Argument(help="A recorded run, or the folder that holds it.")]
INCOMPLETE = 3
CORRUPT = 2


def bundle_of(folder: Path) -> Path:
    """Return the bundle that a path means: itself, or its ``run`` folder.

    Raises
    ------
    CorruptRecordingError
        If neither holds a manifest.
    """
    from privaudit.recording import bundle_at

    bundle = bundle_at(folder)
    if bundle is not None:
        return bundle
    _refuse_several(folder)
    raise CorruptRecordingError(
        f"{folder} is not a recorded run: no manifest.json in it or in {folder / 'run'}; record "
        "one with: privaudit simulate pa-cfl -o FOLDER"
    )


def run_at(path: Path) -> Path:
    """Return a path that some reader may recognise as a recording.

    Raises
    ------
    CorruptRecordingError
        If it holds several.
    """
    _refuse_several(path)
    return path


def _refuse_several(folder: Path) -> None:
    runs = sorted(p.parent for p in folder.glob("runs/*/run/manifest.json"))
    if runs:
        listed = ", ".join(str(p.parent) for p in runs)
        raise CorruptRecordingError(f"{folder} holds several runs; name one of: {listed}")


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""

    @app.command()
    def verify(run: RunDir, json: options.Json = False) -> None:
        """Check a recording byte by byte: 0 intact, 3 incomplete, 2 corrupt."""
        from privaudit.recording import verify as verify_bundle

        folder = bundle_of(run)
        problems = verify_bundle(folder)
        severities = {p.severity for p in problems}
        if json:
            fields = ("severity", "file", "where", "what")
            emit_json(
                {
                    "folder": str(folder),
                    "intact": not severities & {"corrupt", "incomplete"},
                    "problems": [{f: getattr(p, f) for f in fields} for p in problems],
                }
            )
        else:
            for problem in problems:
                typer.echo(str(problem))
            tally = Counter(p.severity for p in problems)
            found = ", ".join(f"{n} {s}" for s, n in sorted(tally.items())) or "no problem"
            intact = not severities & {"corrupt", "incomplete"}
            typer.echo(f"{folder}: {'intact' if intact else 'not intact'}, {found}")
        if "corrupt" in severities:
            raise typer.Exit(CORRUPT)
        if "incomplete" in severities:
            raise typer.Exit(INCOMPLETE)

    @app.command()
    def views(
        run: RunDir,
        coalition: Annotated[
            str | None,
            typer.Option("--coalition", help="Parties that pool their views, e.g. server,user-3."),
        ] = None,
        reader: options.Reader = "",
        json: options.Json = False,
    ) -> None:
        """List who saw what: kind, direction, round, shape and bytes."""
        from privaudit.campaigns.coalitions import members_of
        from privaudit.campaigns.readers import chosen_reader
        from privaudit.transcript import Coalition

        recording = chosen_reader(run_at(run), reader).read(run)
        transcript = recording.transcript
        coalitions: list[tuple[str, ...]]
        if coalition is not None:
            coalitions = [members_of(coalition, transcript)]
        else:
            alone = [p.id for p in transcript.parties if p.role != "user"]
            coalitions = [(party,) for party in (*alone, *transcript.ids("user")[:1])]
        listed: list[dict[str, Any]] = [
            {"coalition": list(c), "messages": _rows(transcript.view(Coalition.of(*c)))}
            for c in coalitions
        ]
        if json:
            emit_json({"complete": recording.complete, "views": listed})
        else:
            _show(listed)
            others = len(transcript.ids("user")) - 1
            if coalition is None and others > 0:
                typer.echo(f"and {count(others, 'other user')}; any coalition: --coalition a,b")
            for problem in recording.problems:
                typer.echo(str(problem), err=True)
        if not recording.complete and not any(entry["messages"] for entry in listed):
            raise typer.Exit(INCOMPLETE)

    @app.command(name="list")
    def list_(
        what: Annotated[
            str,
            typer.Argument(
                help="protocols, attacks, presets, scorers, engines, readers, reporters, datasets, "
                "models or similarities; or all."
            ),
        ] = "all",
        json: options.Json = False,
    ) -> None:
        """List what there is to choose from."""
        catalogues = _catalogues()
        if what != "all" and what not in catalogues:
            raise ConfigurationError(
                f"nothing is listed as '{what}'; allowed are all, {', '.join(catalogues)}."
                f"{did_you_mean(what, catalogues)}"
            )
        chosen = catalogues if what == "all" else {what: catalogues[what]}
        if json:
            emit_json(chosen)
            return
        for title, entries in chosen.items():
            table(title, ("name", "what it is"), list(entries.items()))

    @app.command()
    def explain(
        name: Annotated[str, typer.Argument(help="A protocol, attack or other part, as listed.")],
    ) -> None:
        """Say what a protocol, attack or other part is, and what it assumes."""
        from privaudit import plugins
        from privaudit.attacks.presets import PRESETS, resolve

        kinds = [kind for kind in plugins.GROUPS if name in plugins.available(kind)]
        if not kinds:
            preset = PRESETS.get(name)
            if preset is not None:
                typer.echo(f"preset {name}: {_command(preset)}\n\n{preset.summary}")
                typer.echo(f"source: {preset.source}")
                typer.echo(f"page: {page_of('preset', name)}\n")
            # An attack's name without its family will do too, if only one has it.
            try:
                name, kinds = resolve(name, {})[0], ["attack"]
            except PluginError:
                known = [n for kind in plugins.GROUPS for n in plugins.available(kind)]
                raise ConfigurationError(
                    f"no {', '.join(plugins.GROUPS)} or preset is named '{name}'; privaudit list "
                    f"shows them.{did_you_mean(name, [*known, *PRESETS])}"
                ) from None
        for position, kind in enumerate(kinds):
            thing = plugins.load(kind, name)
            version = getattr(thing, "version", "")
            typer.echo(
                "\n" * (position > 0) + f"{kind} {name}{version and f', version {version}'}\n"
            )
            typer.echo(plain(inspect.getdoc(thing) or ""))
            if page := page_of(kind, name, thing):
                typer.echo(f"\npage: {page}")
            if kind == "attack":
                typer.echo(f"\nrisk: {thing.risk}")
                typer.echo(f"requires: {', '.join(sorted(thing.requires)) or 'nothing'}")
                typer.echo(f"reads: {', '.join(thing.reads)}")
                _options(thing)
            elif kind == "protocol":
                _parameters(thing.Config)
            elif kind == "scorer":
                typer.echo(f"\nscores: {', '.join(thing.attacks)}")
            elif kind == "reporter":
                typer.echo(f"\nwrites: {thing.file_name}")

    @app.command()
    def doctor(data_root: options.DataRoot = None, json: options.Json = False) -> None:
        """Show versions, devices and the data sets that are found."""
        facts = _environment(data_root)
        if json:
            emit_json(facts)
            return
        table("environment", ("what", "value"), [(k, str(v)) for k, v in facts.items()])


def _show(listed: Sequence[dict[str, Any]]) -> None:
    for entry in listed:
        rows = entry["messages"]
        members = " + ".join(entry["coalition"])
        total = sum(row["bytes"] for row in rows)
        title = f"View of {members}: {count(sum(r['messages'] for r in rows), 'message')}"
        table(
            f"{title}, {human_bytes(total)}",
            ("round", "kind", "from", "to", "messages", "arrays", "bytes"),
            [
                (
                    "-" if row["round"] is None else str(row["round"]),
                    row["kind"],
                    row["from"],
                    row["to"],
                    str(row["messages"]),
                    row["arrays"],
                    human_bytes(row["bytes"]),
                )
                for row in rows
            ],
        )


def _options(attack: type[Any]) -> None:
    """Print what inherited classes say of options, then defaults and what is allowed."""
    if not is_dataclass(attack) or not fields(attack):
        return
    for part in attack.__mro__[1:]:
        if is_dataclass(part):
            typer.echo("\n" + plain(inspect.getdoc(part) or ""))
    hints, rows = get_type_hints(attack), []
    for field in fields(attack):
        kind = hints[field.name]
        default = "-" if field.default is MISSING else str(field.default)
        allowed = map(str, get_args(kind)) if get_origin(kind) is Literal else ()
        rows.append((field.name, default, ", ".join(allowed)))
    table("options (--option NAME=VALUE)", ("name", "default", "allowed"), rows)


def _parameters(config: type[Any]) -> None:
    """Print what each class of a configuration says of its parameters, then their defaults."""
    for part in config.__mro__:
        if hasattr(part, "model_fields") and not part.__module__.startswith("pydantic"):
            typer.echo("\n" + plain(inspect.getdoc(part) or ""))
    fields = config.model_fields
    table(
        "parameters (-p NAME=VALUE)",
        ("name", "default"),
        [
            (name, str(field.get_default(call_default_factory=True)))
            for name, field in fields.items()
        ],
    )


def _rows(view: Any) -> list[dict[str, Any]]:
    """Group the messages of a view by round, kind, direction and shape, in order."""
    roles = {party.id: party.role for party in view.parties}
    numbers = Counter(party.role for party in view.parties)

    def end(party: str) -> str:
        if party in view.coalition.members or numbers[roles[party]] == 1:
            return party
        return party if roles[party] != "user" else "users"

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for message in view.messages:
        arrays = ", ".join(
            f"{name} {spec.dtype.lstrip('<|=')}{list(spec.shape)}"
            for name, spec in message.specs.items()
        )
        key = (message.round, message.kind, end(message.sender), end(message.receiver), arrays)
        groups.setdefault(key, []).append(message)
    return [
        {
            "round": key[0],
            "kind": key[1],
            "from": key[2],
            "to": key[3],
            "messages": len(messages),
            "arrays": key[4],
            "bytes": sum(m.nbytes for m in messages),
        }
        for key, messages in groups.items()
    ]


def _command(preset: Preset) -> str:
    """Return an attack and its options as they are given on the command line."""
    given = (f"{key}={str(value).lower()}" for key, value in preset.options.items())
    return " ".join((preset.attack, *given))


def _catalogues() -> dict[str, dict[str, str]]:
    from privaudit import plugins
    from privaudit.attacks.presets import PRESETS
    from privaudit.datasets import DATASETS, describe
    from privaudit.datasets.tables import TABLES
    from privaudit.models import SUMMARIES as MODEL_SUMMARIES
    from privaudit.similarity import SUMMARIES as SIMILARITY_SUMMARIES

    def loaded(kind: str) -> dict[str, str]:
        lines = {}
        for name in plugins.available(kind):
            try:
                lines[name] = summary_line(plugins.load(kind, name))
            except PluginError as error:
                # One broken plug-in must not hide the others; using it is the error.
                typer.echo(f"warning: {error}", err=True)
                lines[name] = "cannot be used"
        return lines

    return {
        "protocols": loaded("protocol"),
        "attacks": loaded("attack"),
        "presets": {name: f"{p.summary} ({_command(p)})" for name, p in PRESETS.items()},
        "scorers": loaded("scorer"),
        "engines": loaded("engine"),
        "readers": loaded("reader"),
        "reporters": loaded("reporter"),
        "datasets": {name: describe(name).summary for name in DATASETS} | dict(TABLES),
        "models": dict(MODEL_SUMMARIES),
        "similarities": dict(SIMILARITY_SUMMARIES),
    }


def _environment(data_root: Path | None) -> dict[str, Any]:
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from privaudit.datasets import DATASETS, load_dataset
    from privaudit.errors import DatasetNotFoundError
    from privaudit.reports import find_browser

    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else "not available",
        "chromium": find_browser() or "not found (privaudit report --format pdf needs it)",
    }
    for package in ("privaudit", "numpy", "scipy", "torch", "torchvision", "numba", "opacus"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    for name in DATASETS:
        try:
            found = load_dataset(name, data_root=data_root)
            facts[f"data set {name}"] = f"found, {len(found.train):,} training records"
        except DatasetNotFoundError:
            facts[f"data set {name}"] = "not found (--data-root or PRIVAUDIT_DATA)"
    return facts
