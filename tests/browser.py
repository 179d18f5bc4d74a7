"""A headless Chromium driven over a pipe: pages of some width, keys, media, and what they say."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
)  # fmt: skip
#: Seconds for one answer.
PATIENCE = 60.0


class Browser:
    """Chromium with the DevTools protocol on its descriptors 3 and 4; no port, no library."""

    def __init__(self, profile: Path) -> None:
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is None:
            pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
        inner_in, self._to = os.pipe()
        self._from, inner_out = os.pipe()
        # Out of the way of 3 and 4, which they become in the browser.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (inner_in, inner_out)]

        def connect() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [found, *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=connect, pass_fds=(3, 4), start_new_session=True,
        )  # fmt: skip
        for end in (*ends, inner_in, inner_out):
            os.close(end)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        try:
            self.send("Browser.getVersion")
        except (EOFError, BrokenPipeError) as error:
            self.close()
            pytest.skip(f"{found} does not run here: {error!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser with all its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
        self._process.wait()
        for end in (self._to, self._from):
            os.close(end)

    def send(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result; events that come before are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        text = json.dumps({**message, **({"sessionId": session} if session else {})})
        content = text.encode() + b"\0"
        while content:
            content = content[os.write(self._to, content) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait(self, method: str, session: str) -> None:
        """Wait for an event of a page, among those that came already first."""
        seen = 0
        while True:
            for event in self.events[seen:]:
                if (event.get("method"), event.get("sessionId")) == (method, session):
                    return
            seen = len(self.events)
            self.events.append(self._read())

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser did not answer within {PATIENCE:g} s")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


class Page:
    """A page that was loaded; what it requested and what its console said is kept."""

    def __init__(self, browser: Browser, url: str, *, width: int, height: int = 900) -> None:
        self._browser = browser
        self._target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self.resize(width, height)
        # Keys go to the page as if its window were in front.
        self._send("Emulation.setFocusEmulationEnabled", enabled=True)
        browser.events.clear()
        self._send("Page.navigate", url=url)
        browser.wait("Page.loadEventFired", self._session)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def resize(self, width: int, height: int = 900) -> None:
        """Set the size of the viewport."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._send("Emulation.setDeviceMetricsOverride", **size)

    def media(self, *, kind: str = "", scheme: str = "light") -> None:
        """Show the page as on a screen or on paper (``"print"``), in a light or dark scheme."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._send("Emulation.setEmulatedMedia", media=kind, features=[feature])

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        answer = self._send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int, text: str) -> None:
        """Press a key, as a person does, on whatever has the focus."""
        known = {"key": key, "windowsVirtualKeyCode": code, "text": text}
        self._send("Input.dispatchKeyEvent", type="keyDown", **known)
        self._send("Input.dispatchKeyEvent", type="keyUp", **known)

    def console(self) -> list[str]:
        """Return errors and warnings since the page was opened."""
        told = []
        for event in self._ours():
            if event["method"] == "Runtime.exceptionThrown":
                told.append(str(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded":
                told.append(str(event["params"]["entry"]["text"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                told.append(str(event["params"]["args"]))
        return told

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for, but for its own data."""
        return [
            event["params"]["request"]["url"]
            for event in self._ours()
            if event["method"] == "Network.requestWillBeSent"
            and not event["params"]["request"]["url"].startswith("data:")
        ]

    def _ours(self) -> list[dict[str, Any]]:
        return [e for e in self._browser.events if e.get("sessionId") == self._session]

    def close(self) -> None:
        """Close the page."""
        self._browser.send("Target.closeTarget", targetId=self._target)
