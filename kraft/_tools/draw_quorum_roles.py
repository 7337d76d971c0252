"""Writes docs/quorum-roles.md: the roles of a replica of the metadata quorum, and the transitions between them, drawn
from the table that the code uses (`kraft.raft.core.roles.TRANSITIONS`).

`python -m kraft._tools.draw_quorum_roles [--check]`, at the root of the tree; a test runs the check.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from kraft._tools.generated_page import write_or_check
from kraft.raft.core.roles import TRANSITIONS

TARGET: Final = Path(__file__).resolve().parents[2] / "docs" / "quorum-roles.md"

INTRODUCTION: Final = """\
# Roles of a replica in the quorum

Generated from `kraft/raft/core/roles.py` by `python -m kraft._tools.draw_quorum_roles`: do not edit.

Every replica of the metadata log has one of these roles (KIP-595, KIP-853, KIP-996). A move that is not in the table
fails at once, and stops the node. A replica that starts is Unattached, and takes up from there what its disk says.

"""


def document() -> str:
    """The text of the page."""
    lines = [f"    {source} --> {target}: {cause}" for source, target, cause in TRANSITIONS]
    rows = [f"| {source} | {target} | {cause} |" for source, target, cause in TRANSITIONS]
    return "\n".join(
        [
            INTRODUCTION + "```mermaid",
            "stateDiagram-v2",
            "    [*] --> Unattached",
            *lines,
            "```",
            "",
            "| from | to | because |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(write_or_check(document(), TARGET, sys.argv[1:]))
