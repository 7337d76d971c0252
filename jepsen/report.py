"""The report of a run as one self-contained page: the faults, the leaders, the waits of clients, and the findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from jepsen.checker.operations import OK, Commit, FaultInjected, Phase, Poll, Send, TopicChange
from jepsen.history import RunHistory, load
from jepsen.judges.elections import Elections
from jepsen.judges.verdict import Verdict

WIDTH, LEFT, ROW = 1180, 190, 20
CHART = 120
SLICE_SECONDS = 0.5
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#eeca3b", "#9d755d", "#72b7b2")
STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1240px; color: #222; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 6px; }
.ok { background: #d9f0d3; } .violation { background: #f7c6c5; } .invalid { background: #fde6b0; }
.verdict { padding: 8px 12px; border-radius: 6px; margin: 8px 0; }
.verdict { font-family: ui-monospace, monospace; display: inline-block; }
table { border-collapse: collapse; } th { color: #666; font-weight: 500; }
td, th { padding: 2px 12px 2px 0; text-align: left; vertical-align: top; }
svg text { font: 12px system-ui, sans-serif; fill: #333; } .axis { fill: #888; font-size: 11px; }
.findings li { font-family: ui-monospace, monospace; font-size: 12px; }
.legend span { display: inline-block; padding: 1px 8px; border-radius: 4px; margin-right: 6px; color: white; }
"""


class Page:
    """`seconds` is the length of the run; x and widths are in pixels."""

    def __init__(self, run: RunHistory) -> None:
        self.run = run
        ends = [operation.ended for operation in run.operations.operations if operation.ended is not None]
        self.seconds = max([*ends, *(sample.at for sample in run.samples), 1.0])

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * at / self.seconds

    def bar(self, began: float, ended: float, row: int, colour: str, title: str, text: str = "") -> str:
        width = max(self.x(ended) - self.x(began), 2.0)
        label = (
            f'<text x="{self.x(began) + 3:.1f}" y="{row * ROW + 13}" style="fill:white">{escape(text)}</text>'
            if text and width > 8 * len(text)
            else ""
        )
        shape = (
            f'<rect x="{self.x(began):.1f}" y="{row * ROW + 1}" width="{width:.1f}" height="{ROW - 3}" rx="2" '
            f'fill="{colour}"/>'
        )
        return f"<g><title>{escape(title)}</title>{shape}{label}</g>"

    def svg(self, height: float, content: Iterable[str]) -> str:
        return f'<svg width="{WIDTH}" height="{height + 18:.0f}">{self._grid(height)}{"".join(content)}</svg>'

    def _grid(self, height: float) -> str:
        step = next(each for each in (1, 2, 5, 10, 20, 60, 300, 3600) if self.seconds / each <= 16)
        lines = [
            f'<line x1="{self.x(at):.1f}" x2="{self.x(at):.1f}" y1="0" y2="{height}" stroke="#e5e5e5"/>'
            f'<text class="axis" x="{self.x(at):.1f}" y="{height + 13}" text-anchor="middle">{at} s</text>'
            for at in range(0, int(self.seconds) + 1, step)
        ]
        for phase in self.run.operations.of(Phase):
            at = self.x(phase.began)
            lines.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height}" stroke="#666" stroke-dasharray="3 '
                f'3"><title>{phase.name}</title></line>'
            )
        return "".join(lines)

    def faults(self) -> str:
        kinds = sorted({fault.kind for fault in self.run.operations.of(FaultInjected)})
        content = [f'<text x="0" y="{row * ROW + 14}">{escape(kind)}</text>' for row, kind in enumerate(kinds)]
        for fault in self.run.operations.of(FaultInjected):
            ended = self.seconds if fault.ended is None else fault.ended
            colour = "#c0392b" if fault.bit else "#d8b4b0"
            title = (
                f"{fault.kind}: {fault.role}, {fault.began:.1f} to {ended:.1f} s, "
                f"{'bit' if fault.bit else 'did not bite'}"
            )
            content.append(self.bar(fault.began, ended, kinds.index(fault.kind), colour, title, fault.role))
        return self.svg(len(kinds) * ROW, content)

    def leaders(self) -> str:
        names = ["quorum", *sorted({name for sample in self.run.samples for name in sample.partitions})]
        content = [f'<text x="0" y="{row * ROW + 14}">{escape(name)}</text>' for row, name in enumerate(names)]
        for row, name in enumerate(names):
            for began, ended, leader, epoch in self._terms(name):
                colour = COLOURS[leader % len(COLOURS)] if leader >= 0 else "#dddddd"
                title = (
                    f"{name}: {f'n{leader}' if leader >= 0 else 'nobody'} in epoch {epoch}, {began:.1f} to "
                    f"{ended:.1f} s"
                )
                content.append(self.bar(began, ended, row, colour, title, f"n{leader}" if leader >= 0 else "-"))
        return self.svg(len(names) * ROW, content)

    def _terms(self, name: str) -> Iterator[tuple[float, float, int, int]]:
        """(began, ended, leader, epoch) of each stretch under one leader."""
        known: tuple[int, int] | None = None
        began = 0.0
        for sample in self.run.samples:
            if name == "quorum":
                now = (sample.controller, sample.controller_epoch)
            elif name in sample.partitions:
                now = (sample.partitions[name][0], sample.partitions[name][1])
            else:
                continue
            if now != known:
                if known is not None:
                    yield began, sample.at, *known
                known, began = now, sample.at
        if known is not None:
            yield began, self.seconds, *known

    def _sliced(self) -> dict[int, list[float]]:
        """Waits of acknowledged sends in seconds, by the slice of time in which they were acknowledged."""
        found: dict[int, list[float]] = {}
        for send in self.run.operations.of(Send):
            if send.outcome == OK and send.ended is not None:
                found.setdefault(int(send.ended / SLICE_SECONDS), []).append(send.ended - send.began)
        return found

    def rates(self) -> str:
        sliced = self._sliced()
        most = max((len(waits) for waits in sliced.values()), default=1) / SLICE_SECONDS
        content = [f'<text x="0" y="14">most: {most:.0f} per second</text>']
        for number, waits in sorted(sliced.items()):
            height = CHART * len(waits) / SLICE_SECONDS / most
            at = number * SLICE_SECONDS
            title = f"{at:.1f} s: {len(waits) / SLICE_SECONDS:.0f} acknowledged per second"
            width = self.x(SLICE_SECONDS) - self.x(0) - 0.5
            content.append(
                f'<rect x="{self.x(at):.1f}" y="{CHART - height:.1f}" width="{width:.1f}" '
                f'height="{height:.1f}" fill="#54a24b"><title>{title}</title></rect>'
            )
        return self.svg(CHART, content)

    def waits(self) -> str:
        """Median and worst wait of each slice, on a scale of tenfolds from 1 ms."""

        def y(seconds: float) -> float:
            return CHART - CHART * max(0.0, min(5.0, math.log10(max(seconds, 1e-4) * 1000))) / 5

        content = []
        for exponent, name in enumerate(("1 ms", "10 ms", "100 ms", "1 s", "10 s")):
            level = CHART - CHART * exponent / 5
            content.append(
                f'<text x="120" y="{level:.1f}">{name}</text><line x1="{LEFT}" x2="{WIDTH}" y1="{level:.1f}" '
                f'y2="{level:.1f}" stroke="#eee"/>'
            )
        for number, waits in sorted(self._sliced().items()):
            at, ordered = (number + 0.5) * SLICE_SECONDS, sorted(waits)
            for wait, colour, what in (
                (ordered[-1], "#e45756", "worst"),
                (ordered[len(ordered) // 2], "#4c78a8", "median"),
            ):
                title = f"{at:.1f} s: {what} {wait * 1000:.0f} ms"
                content.append(
                    f'<circle cx="{self.x(at):.1f}" cy="{y(wait):.1f}" r="3" '
                    f'fill="{colour}"><title>{title}</title></circle>'
                )
        return self.svg(CHART, content)

    def clients(self) -> str:
        """What each client did, by outcome."""
        counts: dict[str, dict[str, int]] = {}
        for kind, what in ((Send, "sends"), (Poll, "polls"), (Commit, "commits"), (TopicChange, "topic changes")):
            for operation in self.run.operations.of(kind):
                row = counts.setdefault(f"{operation.process} {what}", {})
                row[operation.outcome] = row.get(operation.outcome, 0) + 1
        rows = "".join(
            f"<tr><td>{escape(who)}</td>"
            f"{''.join(f'<td>{row.get(outcome, 0)}</td>' for outcome in ('ok', 'info', 'fail'))}</tr>"
            for who, row in counts.items()
        )
        return f"<table><tr><th>client</th><th>ok</th><th>unknown</th><th>failed</th></tr>{rows}</table>"

    def losses(self) -> str:
        """The reported losses of unclean elections; empty if there were none."""
        rows = "".join(
            f"<tr><td>{escape(each.topic)}-{each.partition}</td><td>{each.leader_epoch}</td><td>"
            + (
                ", ".join(f"n{replica} gave up [{start}, {end})" for replica, (start, end) in sorted(each.lost.items()))
                or "nothing was given up"
            )
            + "".join(f", n{replica} is not known" for replica in each.unknown)
            + "</td></tr>"
            for each in Elections(self.run).all_reports()
        )
        return (
            (
                "<h2>Unclean elections</h2><table><tr><th>partition</th><th>epoch</th><th>told by the "
                f"cluster</th></tr>{rows}</table>"
            )
            if rows
            else ""
        )


def render(run: RunHistory, verdict: Verdict) -> str:
    page, facts = Page(run), run.facts
    found = "".join(
        f"<li>{escape(each)}</li>"
        for each in (*verdict.findings, *(f"invalid: {reason}" for reason in verdict.reasons))
    )
    findings = f'<h2>Findings</h2><ul class="findings">{found}</ul>' if found else ""
    allowed = (
        f"<p>{verdict.lost_allowed} acknowledged records were lost as the promise allows.</p>"
        if verdict.lost_allowed
        else ""
    )
    promise = "flush.messages=1" if facts.flush else "default flush settings"
    promise += ", SASL_SSL" if facts.secured else ""
    legend = "".join(f'<span style="background:{COLOURS[node % len(COLOURS)]}">n{node}</span>' for node in range(1, 6))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<title>{facts.target} {facts.workload} under {facts.plan}</title>
<style>{STYLE}</style></head><body>
<h1>{escape(facts.target)}: {escape(facts.workload)} under {escape(facts.plan)}</h1>
<div>seed {facts.seed}, {facts.seconds:g} s of faults, {promise},
commit {escape(facts.version)}, {escape(facts.machine)}</div>
<div class="verdict {verdict.word}">{escape(str(verdict))}</div>{allowed}{findings}
<h2>Faults</h2>{page.faults()}
<h2>Leaders</h2><div class="legend">{legend}</div>{page.leaders()}
<h2>Acknowledged records</h2>{page.rates()}
<h2>Wait for an acknowledgement (blue: median, red: worst, of each half second)</h2>{page.waits()}
{page.losses()}
<h2>Clients</h2>{page.clients()}
<p>Dashed lines: faults begin, all is healed, all was read.
To judge the history again: <code>python -m jepsen check {"history.jsonl"}</code></p>
</body></html>"""


def write_report(history: Path, page: Path, verdict: Verdict) -> None:
    page.write_text(render(load(history), verdict), encoding="utf-8")
