"""The command line: thin commands over the library.

Everything heavy is imported inside the commands, so that ``privaudit --help`` answers at once.
"""

from privaudit.cli._main import main

__all__ = ["main"]
