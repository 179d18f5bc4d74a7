"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import BaseModel

from privaudit.configuration import parse_assignment, read_toml
from privaudit.errors import ConfigurationError, did_you_mean

__all__ = [
    "Categorical",
    "Config",
    "DataRoot",
    "Dataset",
    "Drop",
    "Force",
    "Json",
    "Label",
    "Missing",
    "Out",
    "Parties",
    "Partition",
    "Quiet",
    "Reader",
    "Rounds",
    "Seed",
    "Settings",
    "Split",
    "Table",
    "Threads",
    "Users",
    "audited_data",
    "configuration",
    "use_threads",
]

#: Endings of the files of a user's own table.
FILES = (".csv", ".csv.gz", ".parquet")

Out: TypeAlias = Annotated[Path, typer.Option("-o", "--out", help="Folder to write to.")]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace what an earlier run wrote to the folder.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("-q", "--quiet", help="No progress.")]
Reader: TypeAlias = Annotated[
    str,
    typer.Option(
        "--reader",
        help="Reader of the recording's format; see: privaudit list readers.",
        show_default="the one that recognises it",
    ),
]
Seed: TypeAlias = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed of everything random.", show_default="0")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
DataRoot: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        envvar="PRIVAUDIT_DATA",
        help="Folder with data sets in torchvision's layout.",
    ),
]
Dataset: TypeAlias = Annotated[
    str | None,
    typer.Option("--dataset", help="Data set, or an .npz file.", show_default="digits, embedded"),
]
Users: TypeAlias = Annotated[
    int | None, typer.Option("--users", help="Users N.", show_default="20")
]
Rounds: TypeAlias = Annotated[int | None, typer.Option("--rounds", help="Rounds T.")]
Partition: TypeAlias = Annotated[
    str | None,
    typer.Option("--partition", help="clustered, dirichlet, iid or single-record."),
]
Parties: TypeAlias = Annotated[
    int | None,
    typer.Option("--parties", help="Parties of a protocol over columns.", show_default="2"),
]
Split: TypeAlias = Annotated[
    str | None,
    typer.Option("--split", help="contiguous, random, halves, quarters or groups (of columns)."),
]
Table: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--table", help="A table of your own, .csv or .parquet, for a protocol over columns."
    ),
]
Label: TypeAlias = Annotated[
    str | None,
    typer.Option("--label", help="Column of the table that no party holds: the truth to compare."),
]
Categorical: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--categorical", help="Column of the table that is categorical; repeatable."),
]
Drop: TypeAlias = Annotated[
    list[str] | None, typer.Option("--drop", help="Column of the table to leave out; repeatable.")
]
Missing: TypeAlias = Annotated[
    str | None,
    typer.Option("--missing", help="error, drop-rows or impute.", show_default="error"),
]
Config: TypeAlias = Annotated[
    Path | None, typer.Option("--config", help="TOML file with the configuration.")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--parameter",
        metavar="KEY=VALUE",
        help="A parameter of the protocol, e.g. epsilon0=3 or similarity=rbo; repeatable.",
    ),
]
Threads: TypeAlias = Annotated[
    int,
    typer.Option(
        "--threads", min=1, help="Threads of torch; results are reproducible for one number."
    ),
]


def configuration(
    *,
    config: Path | None,
    sections: tuple[str, ...],
    settings: list[str] | None,
    federation: dict[str, Any],
    top: dict[str, Any],
    rounds: int | None,
) -> dict[str, Any]:
    """Merge a TOML file with the options of the command line, which win.

    Raises
    ------
    ConfigurationError
        If the file has a key that is not known, or a value in place of a table.
    """
    values: dict[str, Any] = read_toml(config) if config is not None else {}
    for key in values:
        if key not in sections:
            raise ConfigurationError(
                f"{config}: unknown key '{key}'; known are {', '.join(sections)}."
                f"{did_you_mean(key, sections)}"
            )
    for section in ("parameters", "federation"):
        if not isinstance(values.get(section, {}), dict):
            raise ConfigurationError(
                f"{config}: {section} = {values[section]!r}: must be a table, written [{section}]"
            )
    parameters = dict(values.get("parameters", {}))
    parameters.update(parse_assignment(text) for text in settings or ())
    if rounds is not None:
        parameters["rounds"] = rounds
    values["parameters"] = parameters
    given = {key: value for key, value in federation.items() if value is not None}
    values["federation"] = {**values.get("federation", {}), **given}
    values.update({key: value for key, value in top.items() if value is not None})
    return values


def audited_data(
    subject: str, config: type[BaseModel], data: Mapping[str, Any], top: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options on the data of an audit, and on the audit, by the keys that they set.

    Parameters
    ----------
    subject : str
        The protocol.
    config : type
        Of the audit's configuration, which says what its data have.
    data, top : mapping
        Options by name; None or empty where not given. ``table`` sets the data set.

    Raises
    ------
    ConfigurationError
        If an option is for data of another kind, or both ``table`` and ``dataset`` are given.
    """
    given = {key: value for key, value in data.items() if value not in (None, [])}
    fields = getattr(config.model_fields["federation"].annotation, "model_fields", {})
    over_columns = "split" in fields
    for key in given:
        if key not in fields and not (key == "table" and over_columns):
            kind = "columns of the same rows" if over_columns else "whole records"
            raise ConfigurationError(
                f"--{key} does not apply to '{subject}', whose parties hold {kind}"
            )
    chosen = {key: value for key, value in top.items() if value is not None}
    for key in chosen:
        if key not in config.model_fields:
            raise ConfigurationError(
                f"--{key.replace('_', '-')} does not apply to the audit of '{subject}'"
            )
    if "table" in given:
        if "dataset" in given:
            raise ConfigurationError("give --table or --dataset, not both")
        path = Path(given.pop("table")).expanduser()
        if not path.name.endswith(FILES):
            raise ConfigurationError(f"--table {path}: the name must end in {', '.join(FILES)}")
        if not path.is_file():
            raise ConfigurationError(f"--table {path}: there is no such file")
        given["dataset"] = str(path)
    return given, chosen


def use_threads(threads: int) -> None:
    """Fix the number of threads of torch: more are slower on busy machines, and sums differ."""
    import torch

    torch.set_num_threads(threads)
