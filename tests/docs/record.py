"""Makes the pictures of README.md anew, from the commands that stand there: `python -m tests.docs.record`, as root.

`docs/images/three-nodes.svg` is a recording of a terminal: each line appears when it was printed. The two screenshots
show the page of a node while another one is down. They need Debian's `chromium` and `fonts-dejavu-core`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tests.docs.blocks import ROOT
from tests.docs.sessions import steps_of

IMAGES = ROOT / "docs/images"
COLUMNS = 96
ROWS = 60
TYPING_SECONDS = 0.9
"""Between the end of one command and the next, as if a person typed it."""
READY_SECONDS_MAX = 60
PAGE = "http://127.0.0.1:9644/"
SCHEMES = {"dark": 0, "light": 1}
"""Chromium's numbers for prefers-color-scheme."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
LINE_HEIGHT = 17
STYLE = """
svg { font: 13px/1.3 ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
rect { fill: #0f1117; } text { fill: #d7dae5; white-space: pre; animation: show 1ms linear both; }
.typed { fill: #8b8dff; } @keyframes show { from { opacity: 0; } to { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { text { animation: none; } }
"""


@dataclass(frozen=True)
class Line:
    """A line on the terminal, and the second at which it was printed."""

    second: float
    text: str
    typed: bool


def record(commands: list[str]) -> list[Line]:
    """Run the commands one after the other on a terminal of their own. Raises CalledProcessError."""
    lines: list[Line] = []
    second = 0.0
    for command in commands:
        second += TYPING_SECONDS
        lines.append(Line(second, f"$ {command}", True))
        began = time.monotonic()
        printed = _printed(command)
        lines += [Line(second + at - began, text, False) for at, text in printed]
        second += time.monotonic() - began
    return lines


def _printed(command: str) -> list[tuple[float, str]]:
    """The lines that a command prints, each with the moment of its end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    lines: list[tuple[float, str]] = []
    rest = ""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # What Linux answers when the last process has closed the terminal.
            data = b""
        if not data:
            break
        *whole, rest = (rest + data.decode(errors="replace")).split("\n")
        lines += [(time.monotonic(), ESCAPES.sub("", text).rstrip()) for text in whole]
    os.close(master)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    return [(at, text) for at, text in lines if text]


def draw(lines: list[Line]) -> str:
    """The recording as an SVG that plays by itself."""
    width, height = 16 + round(COLUMNS * 7.9), 20 + LINE_HEIGHT * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f'<style>{STYLE}</style><rect width="{width}" height="{height}" rx="8"/>',
    ]
    for number, line in enumerate(lines):
        kind = ' class="typed"' if line.typed else ""
        y = 22 + LINE_HEIGHT * number
        delay = f"animation-delay:{line.second:.2f}s"
        parts.append(f'<text{kind} x="14" y="{y}" style="{delay}" xml:space="preserve">{escape(line.text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def photograph(directory: Path) -> None:
    """The page in both colour schemes. Raises CalledProcessError."""
    for scheme, number in SCHEMES.items():
        target = IMAGES / f"status-{scheme}.png"
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={target}"]
        command += [
            "--window-size=1120,980",
            "--hide-scrollbars",
            "--virtual-time-budget=6000",
            f"--user-data-dir={directory}",
        ]
        command += [f"--blink-settings=preferredColorScheme={number}", PAGE]
        subprocess.run(command, check=True, timeout=120, stderr=subprocess.DEVNULL)


def main() -> None:
    if "--inside" not in sys.argv:
        command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m"]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        subprocess.run([*command, "tests.docs.record", "--inside"], cwd=ROOT, env=environment, check=True)
        return
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    IMAGES.mkdir(exist_ok=True)
    cluster, typed = (step.text.strip() for step in steps_of("three-nodes"))
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        began = time.monotonic()
        with subprocess.Popen(cluster.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as nodes:
            assert nodes.stdout is not None
            assert nodes.stderr is not None
            assert nodes.stdout.readline().startswith("ready ")
            assert time.monotonic() - began < READY_SECONDS_MAX
            told = [nodes.stderr.readline().rstrip() for _ in range(4)]
            first = TYPING_SECONDS
            lines = [Line(first, f"$ {cluster}", True)]
            lines += [Line(first + time.monotonic() - began, text, False) for text in told]
            later = lines[-1].second
            lines += [Line(later + line.second, line.text, line.typed) for line in record(typed.splitlines())]
            (IMAGES / "three-nodes.svg").write_text(draw(lines), encoding="utf-8")
            photograph(Path(directory) / "chromium")
            nodes.terminate()


if __name__ == "__main__":
    main()
