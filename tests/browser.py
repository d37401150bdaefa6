"""A headless Chromium that tests can look into: the DevTools protocol over two pipes, so that no driver is needed.

Messages are JSON, separated by null bytes; Chromium reads them from file descriptor 3 and writes to 4
(``--remote-debugging-pipe``). https://chromedevtools.github.io/devtools-protocol/ describes them.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
"""Debian's package; others install the program elsewhere and may be snaps, which cannot read /tmp."""
PROBLEMS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled", "Network.requestWillBeSent")


class Browser:
    """One tab. Use it as a context manager."""

    def __init__(self, directory: Path) -> None:
        read_commands, self._commands = os.pipe()
        self._messages, write_messages = os.pipe()

        def connect() -> None:
            # Above 4 first, so that neither overwrites the other.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 5) for end in (read_commands, write_messages)]
            for number, end in enumerate(ends, 3):
                os.dup2(end, number)

        self._process = subprocess.Popen(
            [
                *(
                    str(CHROMIUM),
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--hide-scrollbars",
                    "--remote-debugging-pipe",
                ),
                *("--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={directory}", "about:blank"),
            ],
            # All other file descriptors of Python are closed by the system when Chromium is executed.
            close_fds=False,
            preexec_fn=connect,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_messages)
        self._buffer, self._number, self._session = b"", 0, ""
        self._is_loaded = False
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        tab = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._commands)  # Chromium ends when its pipe is closed
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._messages)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol; return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer}"
                return answer["result"]
            self._note(answer)

    def open(self, page: Path, width: int, scheme: str) -> None:
        """Load a file at this width in CSS pixels, with the colour scheme ``light`` or ``dark``."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._is_loaded = False
        self.call("Page.navigate", url=page.absolute().as_uri())
        while not self._is_loaded:
            self._note(self._read())

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression of JavaScript; promises are awaited."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def _note(self, message: dict[str, Any]) -> None:
        self._is_loaded |= message.get("method") == "Page.loadEventFired"
        if message.get("method") in PROBLEMS:
            self.events.append(message)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._messages, 1 << 20)
            assert data, "Chromium has ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)  # type: ignore[no-any-return]
