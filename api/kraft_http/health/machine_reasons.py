"""Health reasons about the machines of a cluster: clocks, certificates, slow disks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kraft.security.certificates import ENDS_SOON_SECONDS, HTTP_ADMIN
from kraft_http.health.health_findings import NodeStatus, Reason, at
from kraft_http.ports import BrokerFacts

CLOCK_MS_MAX: Final = 5_000
"""Clocks differ if they are further apart."""
CERTIFICATE_MS_MIN: Final = ENDS_SOON_SECONDS * 1000


def unreached_reasons(unreached: Mapping[int, str], asked_by: int, brokers: Sequence[BrokerFacts]) -> Iterator[Reason]:
    """The reason about live nodes that node `asked_by` cannot reach. `unreached` has the cause by node id. Nodes that
    are shutting down on purpose are left out."""
    stopping = {broker.node_id for broker in brokers if broker.shutting_down}
    found = {node: why for node, why in sorted(unreached.items()) if node not in stopping}
    if found:
        yield Reason(
            code="nodes_unreachable",
            summary=" ".join(
                f"Node {node} is live, but node {asked_by} cannot reach it ({why})." for node, why in found.items()
            ),
            remedy="Other nodes cannot copy from it, and clients may not reach it either: `kraft doctor` looks from "
            "where you are. Look at its advertised.listeners, at its certificate, and at firewalls between the nodes.",
        )


def clock_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reasons about nodes whose clocks differ from the median of all."""
    offsets = {node.node_id: node.clock_offset_ms for node in nodes if node.wall_ms is not None}
    if not offsets:
        return
    middle = sorted(offsets.values())[(len(offsets) - 1) // 2]
    wrong = {node_id: offset - middle for node_id, offset in offsets.items() if abs(offset - middle) > CLOCK_MS_MAX}
    told = "; ".join(
        f"node {node_id} is {_duration(abs(away) / 1000)} {'ahead' if away > 0 else 'behind'}"
        for node_id, away in sorted(wrong.items())
    )
    if told:
        yield Reason(
            code="clocks_differ",
            summary=f"Clocks differ: {told}.",
            remedy="Set the clock there (`timedatectl`, `chronyc tracking`) and keep it set. Retention, look-ups by "
            "time, LogAppendTime, tokens and certificates go by it.",
        )


def certificate_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    """The reasons about certificates that have expired or will soon, by the clock of the node that uses them."""
    for node in nodes:
        for each in node.certificates:
            left_ms = each.ends_ms - (node.wall_ms or 0)
            if node.wall_ms is None or left_ms >= CERTIFICATE_MS_MIN:
                continue
            is_admin = each.listener == HTTP_ADMIN
            shown_by = "the HTTP admin" if is_admin else f"listener {each.listener}"
            refused = "browsers and scrapes" if is_admin else "clients and nodes"
            when = (
                f"ended at {at(each.ends_ms)}: {refused} are refused"
                if left_ms < 0
                else f"ends in {_duration(left_ms / 1000)}, at {at(each.ends_ms)}"
            )
            yield Reason(
                code="certificate_ended" if left_ms < 0 else "certificate_ends",
                summary=f"The certificate of {shown_by} on node {node.node_id} {when}.",
                remedy=f"Replace the files that {'kraft.admin.' if is_admin else ''}ssl.keystore.location names there: "
                "the node takes them within seconds, without a restart. "
                "Certificates in the configuration itself need a restart.",
            )


def slow_disk_reasons(nodes: Sequence[NodeStatus]) -> Iterator[Reason]:
    for node in nodes:
        for each in node.slow_disks:
            yield Reason(
                code="slow_disk",
                summary=f"The disk of {each.path} on node {node.node_id} is slow: {each.slow} of {each.syncs} syncs of "
                f"the last five minutes took more than a second, the longest {each.seconds:.1f} s.",
                remedy="Look at the disk there (`iostat -x 1`, `dmesg`). Meanwhile "
                f"`kraft brokers maintenance {node.node_id}` moves leaders to other nodes.",
            )


def _duration(seconds: float) -> str:
    """The duration in its two largest units. Seconds are rounded away from ten minutes on, minutes from ten hours on:
    a difference of clocks is measured no better than the time of a response."""
    step = 3_600 if seconds >= 36_000 else 60 if seconds >= 600 else 1
    rest = round(seconds / step) * step
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
