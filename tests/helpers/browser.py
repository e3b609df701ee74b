"""Debian's chromium without a window, driven through its own pipe: real clicks, keys and pictures of the page.

The DevTools protocol is JSON messages that end in a zero byte, read from descriptor 3 and written to descriptor 4.
"""

import base64
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60.0
KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}


def find_chromium() -> str:
    """Where it is. Without it the tests are skipped by name, but not in continuous integration, which installs it."""
    program = shutil.which("chromium")
    if program is None:
        told = "chromium is not installed: sudo apt-get install chromium"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(told)
    return program


class Browser:
    def __init__(self, folder: Path) -> None:
        program = find_chromium()
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        switches = "--headless=new --remote-debugging-pipe --disable-gpu --no-first-run --hide-scrollbars"
        # Tests may run as root, whom the sandbox refuses; the page is our own.
        command = [program, *switches.split(), "--no-sandbox", f"--user-data-dir={folder}", "about:blank"]
        actions = [
            (os.POSIX_SPAWN_DUP2, orders, 3),
            (os.POSIX_SPAWN_DUP2, answers, 4),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        self._process = os.posix_spawn(program, command, os.environ, file_actions=actions, setpgroup=0)
        os.close(orders)
        os.close(answers)
        self._unread, self._last, self._session = b"", 0, None
        self.complaints: list[str] = []
        """Errors of the page's script, and requests for anything that is not in the file."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._last:
            self._hear(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        ends = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, ends - time.monotonic()))
            assert ready, "chromium does not answer"
            arrived = os.read(self._answers, 1 << 20)
            assert arrived, "chromium has ended"
            self._unread += arrived
        line, _, self._unread = self._unread.partition(b"\0")
        return json.loads(line)

    def _hear(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.complaints.append(told["entry"]["text"])
        if method == "Network.requestWillBeSent" and not told["request"]["url"].startswith(("file:", "data:")):
            self.complaints.append(f"asked the network for {told['request']['url']}")

    def open(self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False, link: str = "") -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        phone = width < 700
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Page.navigate", url="about:blank")  # a page that differs in its link alone would not load again
        self.call("Page.navigate", url=page.resolve().as_uri() + link)
        self.wait("document.readyState === 'complete' && !!document.querySelector('#foot')?.textContent")

    def wait(self, condition: str) -> None:
        ends = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < ends, f"never came true: {condition}"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def place(self, selector: str, along: float = 0.5) -> tuple[float, float]:
        """A point of the element on the screen, scrolled into view; `along` is how far from its left."""
        script = f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{ block: "center", behavior: "instant" }});
            const box = node.getBoundingClientRect();
            return [box.left + {along} * box.width, box.top + box.height / 2];
        }})()"""
        x, y = self.run(script)
        return x, y

    def click(self, selector: str, along: float = 0.5) -> None:
        x, y = self.place(selector, along)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str, along: float = 0.5) -> None:
        x, y = self.place(selector, along)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """The whole page, however long."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._orders)
        os.close(self._answers)
