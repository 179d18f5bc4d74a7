"""The application, its commands, and how errors leave the process."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from privaudit import __version__
from privaudit.cli._attack import register as register_attack
from privaudit.cli._audit import register as register_audit
from privaudit.cli._campaign import register as register_campaign
from privaudit.cli._epsilon import register as register_epsilon
from privaudit.cli._gate import register as register_gate
from privaudit.cli._inspect import register as register_inspect
from privaudit.cli._schema import register as register_schema
from privaudit.cli._simulate import register as register_simulate
from privaudit.errors import PrivauditError

__all__ = ["app", "main"]

INCOMPLETE = 3


class _Commands(TyperGroup):
    """The commands; interruptions are handled here, because typer has exit codes of its own."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("privaudit: interrupted; finished work was kept", file=sys.stderr)
            raise typer.Exit(INCOMPLETE) from None
        except BrokenPipeError:
            # The reader of a pipe (``privaudit list | head``) went away; what is left in the
            # buffer goes nowhere, so that the interpreter does not complain at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None


app = typer.Typer(
    name="privaudit",
    cls=_Commands,
    help="Audit how much federated-learning protocols leak, and attack them to prove it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 finished, 1 a policy is breached or an attack contradicts a proven bound, "
        "2 wrong usage, "
        "configuration or input, 3 incomplete or inconclusive. Data go to standard output, "
        "progress to standard error."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privaudit {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks of errors."),
) -> None:
    """Options of every command."""


for register in (
    register_audit,
    register_simulate,
    register_inspect,
    register_attack,
    register_epsilon,
    register_gate,
    register_campaign,
    register_schema,
):
    register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; the console script's entry point."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=arguments, prog_name="privaudit")
    except PrivauditError as error:
        if "--debug" in arguments:
            raise
        print(f"privaudit: error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except OSError as error:
        if "--debug" in arguments:
            raise
        code, told = _of_the_system(error)
        print(f"privaudit: error: {told}", file=sys.stderr)
        raise SystemExit(code) from None


def _of_the_system(error: OSError) -> tuple[int, str]:
    """Return the exit code for what the operating system refused, and what to say of it."""
    reason = error.strerror or str(error) or type(error).__name__
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return INCOMPLETE, (
            f"{where}{reason}; free the disk and run the same command again: finished work was kept"
        )
    return 2, (
        f"{where}{reason}; name a file or folder that can be read and written, or change its "
        "permissions (--debug shows where it was needed)"
    )
