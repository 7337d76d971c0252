"""The voters of three nodes that docs/first-steps.md starts are replaced, removed and added by the commands of
docs/operations, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.capabilities import require_capability
from tests.docs.blocks import find_block

ROOT = Path(__file__).parents[2]


def test_voters_are_replaced_removed_and_added_as_documented(tmp_path: Path) -> None:
    require_capability("netns")
    replace = [
        re.sub(r"\bHOST:9093\b", "127.0.0.1:19093", line)
        .replace("node-2.properties", "config/three-nodes-2.properties")
        .replace("--cluster-id ID", '--cluster-id "$ID"')
        for line in find_block("docs/operations/replace-a-node.md", "kraft quorum describe ").text.splitlines()
    ]
    assert "add-voter" in replace[-1]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ROOT": str(ROOT),
        "START": find_block("docs/first-steps.md", "ID=$(kraft storage random-uuid)").text,
        "REPLACE_BEFORE": "\n".join(replace[:-1]),
        "REPLACE_ADD": replace[-1],
        "LEAVE": find_block("docs/operations/decommission.md", "kraft quorum remove-voter 3").text,
    }
    script = Path(__file__).with_name("voters_by_the_book.sh")
    with (tmp_path / "output").open("wb") as output:
        done = subprocess.run(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", script],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=180,
        )
    assert done.returncode == 0, (tmp_path / "output").read_text(errors="replace")[-4000:]
