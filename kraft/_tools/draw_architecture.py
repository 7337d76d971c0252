"""Draws docs/architecture.svg: one node, from its clients to its files.

`python -m kraft._tools.draw_architecture [--check]`, at the root of the tree; a test runs the check. Boxes are laid out
by hand below; each names the package that it stands for, and the check fails if that package is gone. The drawing
follows the reader's choice of light or dark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[2]
TARGET: Final = ROOT / "docs" / "architecture.svg"

WIDTH: Final = 940
HEIGHT: Final = 690
STYLE: Final = """
svg { font: 13px/1.3 system-ui, sans-serif; }
rect { fill: #ffffff; stroke: #57606a; } .outside rect { fill: #f6f8fa; stroke-dasharray: 4 3; }
.pure rect { fill: #ddf4ff; } .driver rect { fill: #fff8c5; } .disk rect { fill: #dafbe1; }
.frame { fill: none; stroke: #8c959f; } text { fill: #1f2328; } .small { font-size: 11px; fill: #57606a; }
.name { font-weight: 600; } path { stroke: #57606a; fill: none; } .head { fill: #57606a; stroke: none; }
@media (prefers-color-scheme: dark) {
  rect { fill: #161b22; stroke: #8b949e; } .outside rect { fill: #0d1117; }
  .pure rect { fill: #0c2d4a; } .driver rect { fill: #3b2f05; } .disk rect { fill: #0f2f1a; }
  .frame { stroke: #484f58; } text { fill: #e6edf3; } .small { fill: #9da7b1; }
  path { stroke: #8b949e; } .head { fill: #8b949e; }
}
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the drawing. `kind` selects its colour: outside the node, pure decisions, drivers that wait, files."""

    kind: str
    x: int
    y: int
    width: int
    title: str
    lines: tuple[str, ...] = ()
    package: str = ""
    """The package that the box stands for."""

    @property
    def height(self) -> int:
        return 30 + 15 * (len(self.lines) + bool(self.package))

    def svg(self) -> Iterator[str]:
        yield f'<g class="{self.kind}">'
        yield f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="6"/>'
        centre = self.x + self.width // 2
        yield f'<text class="name" x="{centre}" y="{self.y + 20}" text-anchor="middle">{escape(self.title)}</text>'
        below = (*self.lines, self.package) if self.package else self.lines
        for number, line in enumerate(below, 1):
            y = self.y + 20 + 15 * number
            yield f'<text class="small" x="{centre}" y="{y}" text-anchor="middle">{escape(line)}</text>'
        yield "</g>"


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one point to another along `path` (SVG's path data), with a label beside `at`."""

    path: str
    label: str = ""
    at: tuple[int, int] = (0, 0)

    def svg(self) -> Iterator[str]:
        yield f'<path d="{self.path}" marker-end="url(#head)"/>'
        if self.label:
            anchor = "end" if self.at[0] > WIDTH // 2 + 100 else "start"
            x, y = self.at
            yield f'<text class="small" x="{x}" y="{y}" text-anchor="{anchor}">{escape(self.label)}</text>'


BOXES: Final = (
    Box("outside", 40, 20, 330, "Kafka clients, Kafka's tools, Spark", ("Produce, Fetch, groups, admin",)),
    Box("outside", 570, 20, 330, "Browsers, curl, Prometheus", ("REST v3, health, the page, /metrics",)),
    Box("driver", 40, 120, 330, "Listeners", ("frames, limits, one task a connection",), "kraft/network"),
    Box("driver", 570, 120, 330, "HTTP admin", ("FastAPI in a thread of its own",), "api/kraft_http"),
    Box("driver", 40, 220, 860, "Handlers", ("one module an API; versions and errors in one place",), "kraft/handlers"),
    Box("driver", 40, 330, 260, "Replicas", ("leader, follower, in-sync set",), "kraft/replication"),
    Box("pure", 330, 330, 260, "Coordinators", ("groups: (state, request) to records",), "kraft/coordinator"),
    Box("pure", 620, 330, 280, "Controller", ("(image, request) to records",), "kraft/controller"),
    Box("pure", 620, 440, 280, "Raft", ("pure core, thin driver, one sync for many",), "kraft/raft"),
    Box("pure", 330, 440, 260, "Metadata image", ("immutable; made by replaying records",), "kraft/metadata"),
    Box("disk", 40, 440, 260, "Logs", ("segments, indexes, recovery, compaction",), "kraft/storage"),
    Box(
        "outside",
        40,
        570,
        860,
        "The world's ports",
        ("clock, randomness, files, network, threads: real in production; simulated, from a seed, in the proof",),
        "kraft/world",
    ),
)

ARROWS: Final = (
    Arrow("M205 65 V116", "one request after another", (215, 96)),
    Arrow("M735 65 V116"),
    Arrow("M205 180 V216"),
    Arrow("M735 180 V216", "the same requests, over kraft_http/ports.py", (725, 203)),
    Arrow("M170 280 V326", "Produce, Fetch", (180, 308)),
    Arrow("M460 280 V326", "joins, commits", (470, 308)),
    Arrow("M760 280 V326", "a call, or Envelope to the leader", (750, 308)),
    Arrow("M326 360 H304"),
    Arrow("M760 390 V436", "append; answer once committed", (750, 418)),
    Arrow("M616 470 H594"),
    Arrow("M460 436 V394", "images", (470, 418)),
    Arrow("M380 436 L250 394"),
    Arrow("M170 390 V436", "append, read", (180, 418)),
    Arrow("M170 500 V566"),
    Arrow("M760 500 V566", "__cluster_metadata-0", (750, 530)),
)


def drawing() -> str:
    """The text of the SVG file."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="One kraft node: clients, listeners, handlers, replicas, coordinators, controller, files">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        '<rect class="frame" x="20" y="100" width="900" height="450" rx="10"/>',
    ]
    for shape in (*BOXES, *ARROWS):
        lines.extend(shape.svg())
    lines.append('<text class="name" x="470" y="148" text-anchor="middle">one node</text>')
    lines.append('<text class="small" x="470" y="164" text-anchor="middle">one process, one trio loop</text>')
    lines.append('<g class="pure"><rect x="40" y="652" width="14" height="14"/></g>')
    lines.append('<text class="small" x="60" y="664">decides: pure functions over immutable values</text>')
    lines.append('<g class="driver"><rect x="340" y="652" width="14" height="14"/></g>')
    lines.append('<text class="small" x="360" y="664">does: short drivers, the only code that waits</text>')
    lines.append('<g class="disk"><rect x="640" y="652" width="14" height="14"/></g>')
    lines.append('<text class="small" x="660" y="664">keeps: files in Kafka\'s formats</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def missing_packages() -> list[str]:
    """Packages that the drawing names and that no longer exist."""
    return [box.package for box in BOXES if box.package and not (ROOT / box.package).is_dir()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the drawing is out of date")
    arguments = parser.parse_args()
    if gone := missing_packages():
        print(f"docs/architecture.svg draws packages that are gone: {', '.join(gone)}", file=sys.stderr)
        return 1
    text = drawing()
    if arguments.check:
        return 0 if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
