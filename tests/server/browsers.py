"""A headless browser that tests drive: pages, keys, evaluation and screenshots, over the pipe of its debugger."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PATIENCE = 60.0
_CONNECT = """
import os, sys
# Above the two that the browser expects, so that none of them is overwritten.
commands, answers = (os.dup(os.dup(os.dup(int(given)))) for given in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Starts the browser with the pipe of its debugger at the numbers 3 and 4."""
_CODES = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}


class Page:
    """One page of the browser."""

    def __init__(self, reader: int, writer: int) -> None:
        self._writer = os.fdopen(writer, "wb", buffering=0)
        self._reader = os.fdopen(reader, "rb", buffering=0)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self._session = ""
        self.errors: list[str] = []
        """What the page and the browser complained about: violations of the policy, and uncaught errors."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _read(self) -> None:
        held = b""
        while piece := self._reader.read(1 << 16):
            *messages, held = (held + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers.put(message)
                elif message["method"] == "Log.entryAdded":
                    self.errors.append(message["params"]["entry"]["text"])
                elif message["method"] == "Runtime.exceptionThrown":
                    self.errors.append(json.dumps(message["params"]["exceptionDetails"]))

    def close(self) -> None:
        """Close the pipe of a browser that has ended."""
        self._thread.join(20)
        self._reader.close()
        self._writer.close()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the debugger, and return its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        self._writer.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answers.get(timeout=PATIENCE)
            if answer["id"] == self._number:
                assert "error" not in answer, (method, answer)
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, url: str) -> None:
        """Open an address, as somebody who types it."""
        self.send("Page.navigate", url=url, transitionType="typed")
        self.wait("document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, (script, found)
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true. The page is asked once per frame, so nothing is waited for in vain."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = self.send("Runtime.evaluate", expression=f"!!({condition})", returnByValue=True)
            if found["result"].get("value"):
                return
            # Replies come in the time of a frame; this keeps the debugger from taking all of the processor.
            threading.Event().wait(0.02)
        body = self.evaluate("document.body.innerText")
        raise AssertionError(f"{condition} did not become true; the page says:\n{body[:3000]}\n{self.errors}")

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"Enter": "\r", "Escape": "", "Tab": ""}.get(key, key)
            event: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0}
            event |= {"windowsVirtualKeyCode": _CODES.get(key, ord(key.upper()[0]))}
            self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def write(self, text: str) -> None:
        """Insert a text where the focus is."""
        self.send("Input.insertText", text=text)

    def show(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window, and the colours of the system."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        """Write what the page shows to a file."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))


def find_command(folder: Path, *more: str) -> list[str]:
    """Return the command of a browser with a profile of its own, which connects to nothing by itself."""
    command = [shutil.which("chromium") or "chromium", "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-sync"]
    return [*command, "--disable-component-update", f"--user-data-dir={folder / 'profile'}", *more]


@contextmanager
def start_browser(folder: Path, command: list[str], pass_fds: tuple[int, ...] = ()) -> Iterator[None]:
    """Run a browser until the block ends. Its sockets need a short path, and are not removed when it is terminated."""
    with ExitStack() as stack:
        scratch = stack.enter_context(TemporaryDirectory(prefix="dragoman-browser-", ignore_cleanup_errors=True))
        log = stack.enter_context((folder / "browser.log").open("w", encoding="utf-8"))
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(folder), "TMPDIR": scratch},
            pass_fds=pass_fds,
            start_new_session=True,
        )
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        yield


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """Start a browser with an empty page."""
    (commands_out, commands_in), (answers_out, answers_in) = os.pipe(), os.pipe()
    connect = [sys.executable, "-I", "-S", "-c", _CONNECT, str(commands_out), str(answers_in)]
    command = [*connect, *find_command(folder, "--remote-debugging-pipe", "about:blank")]
    with ExitStack() as stack, start_browser(folder, command, (commands_out, answers_in)):
        os.close(commands_out)
        os.close(answers_in)
        page = Page(answers_out, commands_in)
        stack.callback(page.close)
        yield page
