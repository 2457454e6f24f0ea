"""Chromium without a window, driven over a pipe with the DevTools protocol."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


class Page:
    """One page. problems: what the console reported as an error or a warning."""

    def __init__(self, profile: Path):
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()
        shell = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        flags = [*FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        command = ["bash", "-c", shell, str(BROWSER), *flags]
        self.process = subprocess.Popen(
            command,
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.reader, self.writer = os.fdopen(to_us, "rb"), os.fdopen(from_us, "wb")
        self.count, self.session, self.problems = 0, None, list[str]()
        self.events: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its result."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        number = self.count
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self.reader.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        message = json.loads(data)
        method, params = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(json.dumps(params["args"]))
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        return message

    def open(self, file: Path, width: int) -> None:
        """Show a file at a width in CSS pixels, as a telephone does if it is narrow."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.go(file.resolve().as_uri())

    def go(self, address: str) -> None:
        """Leave the page for another, until that has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self._receive()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def too_wide(self, width: int) -> list[str]:
        """Elements that reach beyond the width, those in scrolling boxes aside: how they begin."""
        wide = "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && "
        wide += f"e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80))"
        return self.run(wide)

    def close(self) -> None:
        """End the browser."""
        self.session = None
        self.writer.write(json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        self.writer.flush()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.close()
        self.writer.close()
