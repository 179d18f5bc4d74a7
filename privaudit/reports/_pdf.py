"""The PDF form of a report: its HTML, printed by a headless Chromium of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from privaudit.errors import ConfigurationError, ExternalToolError
from privaudit.reports._html import render_html
from privaudit.reports.model import AuditReport

__all__ = ["BROWSERS", "find_browser", "print_to_pdf", "render_pdf"]

#: Names under which Chromium and its kin are installed, in the order in which they are tried.
BROWSERS: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
    "microsoft-edge",
)
#: Names another browser than the first that is found.
VARIABLE: Final = "PRIVAUDIT_CHROMIUM"
#: Set to 1, the browser runs without its own sandbox.
UNCONFINED: Final = "PRIVAUDIT_CHROMIUM_NO_SANDBOX"
#: After which a browser that has not printed is ended. The largest sample report takes 15 s.
SECONDS: Final = 120.0

_FLAGS: Final = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    # The page cannot ask for anything; these keep the browser itself from calling home.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
)


def find_browser(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the program that prints, or None if there is none.

    Raises
    ------
    ConfigurationError
        If ``PRIVAUDIT_CHROMIUM`` names something that cannot be run.
    """
    path = environment.get("PATH")
    chosen = environment.get(VARIABLE, "")
    if chosen:
        found = shutil.which(chosen, path=path)
        if found is None:
            raise ConfigurationError(f"{VARIABLE} is '{chosen}', which is no program")
        return found
    return next(filter(None, (shutil.which(name, path=path) for name in BROWSERS)), None)


def render_pdf(report: AuditReport) -> bytes:
    """Return ``report`` as PDF, tagged and with an outline, as its HTML prints.

    Raises
    ------
    ConfigurationError
        If no Chromium is installed; it says what to install.
    ExternalToolError
        If Chromium fails, or does not end.
    """
    return print_to_pdf(render_html(report))


def print_to_pdf(page: str, *, seconds: float = SECONDS) -> bytes:
    """Return what Chromium prints of an HTML document that needs nothing but itself.

    Raises
    ------
    ConfigurationError, ExternalToolError
        As :func:`render_pdf`.
    """
    browser = find_browser()
    if browser is None:
        raise ConfigurationError(
            "the format 'pdf' needs Chromium or Google Chrome, and none of "
            f"{', '.join(BROWSERS)} is on the PATH. Install one (apt install chromium; brew "
            f"install --cask chromium), name yours in {VARIABLE}, or write html and print it "
            "from any browser"
        )
    with tempfile.TemporaryDirectory(prefix="privaudit-pdf-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            *_FLAGS,
            *_confinement(),
            f"--user-data-dir={folder / 'profile'}",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        said = _run(command, folder, seconds=seconds)
        content = target.read_bytes() if target.is_file() else b""
    if not content.startswith(b"%PDF-") or b"%%EOF" not in content[-1024:]:
        raise ExternalToolError(f"{browser} printed no PDF. {_advice(said)}")
    return content


def _confinement() -> tuple[str, ...]:
    """Return the flag that does without Chromium's sandbox where it cannot have one.

    Chromium refuses to run as root inside it. The page is our own, escaped, and its policy admits
    one script whose digest it names, so that the sandbox guards against errors of ours.
    """
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return ("--no-sandbox",) if root or os.environ.get(UNCONFINED) == "1" else ()


def _run(command: list[str], folder: Path, *, seconds: float) -> str:
    """Run a browser and return what it said; end it with all its processes if it hangs."""
    with (folder / "said").open("w+b") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            # A group of its own, so that its helper processes end with it.
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise ExternalToolError(
                f"{command[0]} did not print the report within {seconds:g} s and was ended"
            ) from error
        finally:
            # Also after an interruption, and for helpers that outlive the browser.
            _end(process)
        stream.seek(0)
        said = stream.read().decode("utf-8", errors="replace")
    if code:
        raise ExternalToolError(f"{command[0]} ended with code {code}. {_advice(said)}")
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _advice(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if any("sandbox" in line.lower() for line in lines):
        return (
            "Its sandbox cannot be set up here (as in many containers): allow unprivileged user "
            f"namespaces, or set {UNCONFINED}=1 to do without"
        )
    return f"It said: {lines[-1][:300]}" if lines else "It said nothing"
