"""The drawn roles are those that the code obeys."""

from __future__ import annotations

from kraft._tools.draw_quorum_roles import TARGET, document


def test_the_committed_page_matches_the_table() -> None:
    assert TARGET.read_text(encoding="utf-8") == document(), "run python -m kraft._tools.draw_quorum_roles"
