"""Incidents, put right by the commands of these pages alone: docs/operations/frozen-node.md."""

from __future__ import annotations

from pathlib import Path

from tests.integration.drills import drill, incident


def test_a_frozen_node_serves_again_after_the_restart_of_its_page(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/frozen-node.md") as (frozen, writer):
        frozen.cluster.pause([2])
        frozen.must_speak(incident("a frozen node"))
        writer.more(100)
        frozen.follow("systemctl restart")
