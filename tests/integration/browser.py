"""Debian's Chromium without a window, steered through its DevTools pipe: no driver and no further package."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 60.0
STOP_SECONDS_MAX = 30.0


class Browser:
    """One tab. `complaints` are exceptions of scripts, and what the Content-Security-Policy refused."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One DevTools command and its answer. Raises RuntimeError for a refusal, TimeoutError."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            message = self._message(deadline)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            readable, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise TimeoutError("the browser does not answer")
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise ConnectionError("the browser has gone")
            self._rest += data
        first, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["source"] in (
            "security",
            "javascript",
        ):
            self.complaints.append(message["params"]["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression in the page. Raises RuntimeError."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait for an expression to be true. Raises TimeoutError with what the page shows."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{condition}: {self.text()[:2000]}")
            time.sleep(0.05)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def text(self) -> str:
        return str(self.run("document.body ? document.body.innerText : ''"))

    def look(self, *, width: int, height: int, dark: bool) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def photograph(self, target: Path) -> None:
        """In the format that the name ends with: png, jpeg or webp."""
        data = self.call(
            "Page.captureScreenshot", format=target.suffix[1:], **({} if target.suffix == ".png" else {"quality": 80})
        )
        target.write_bytes(base64.b64decode(data["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Started, and killed at the end."""
    chromium = shutil.which("chromium")
    assert chromium is not None
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    options = (
        "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe "
        "--disable-quic --disable-background-networking --disable-component-update --disable-sync"
    )
    shell = f'exec "$0" {options} "$@" 3<&{command_read} 4>&{answer_write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, chromium, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(command_read, answer_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(command_read)
    os.close(answer_write)
    try:
        yield Browser(command_write, answer_read)
    finally:
        os.killpg(process.pid, 9)
        process.wait(STOP_SECONDS_MAX)
        os.close(command_write)
        os.close(answer_read)
