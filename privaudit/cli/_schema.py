"""``privaudit schema``: the JSON Schemas of what privaudit writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaudit.errors import ConfigurationError, did_you_mean

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command()
    def schema(
        name: Annotated[
            str | None,
            typer.Argument(help="report-1, campaign-1 or results-1.", show_default="all, with -o"),
        ] = None,
        out: Annotated[
            Path | None, typer.Option("-o", "--out", help="Folder to write NAME.json to.")
        ] = None,
    ) -> None:
        """Print a JSON Schema, or write them all: of reports, campaigns and their results."""
        from privaudit.campaigns.schemas import SCHEMAS, schema_text
        from privaudit.reports import replace_file

        if name is not None and name not in SCHEMAS:
            raise ConfigurationError(
                f"no schema is named '{name}'; allowed are {', '.join(SCHEMAS)}."
                f"{did_you_mean(name, SCHEMAS)}"
            )
        if out is None:
            if name is None:
                raise ConfigurationError(
                    f"name a schema ({', '.join(SCHEMAS)}), or a folder for all with -o"
                )
            typer.echo(schema_text(name), nl=False)
            return
        try:
            out.mkdir(parents=True, exist_ok=True)
            for one in SCHEMAS if name is None else (name,):
                replace_file(out / f"{one}.json", schema_text(one).encode())
                typer.echo(str(out / f"{one}.json"))
        except OSError as error:
            raise ConfigurationError(f"{out}: cannot be written to ({error.strerror})") from error
