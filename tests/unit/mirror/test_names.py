"""What a mirror takes by pattern, and what it calls its own."""

from __future__ import annotations

import pytest

from kraft.mirror.names import chosen_groups, chosen_topics, state_topic


def test_a_pattern_matches_whole_names_without_internal_and_mirror_topics() -> None:
    names = ["orders", "orders.eu", "reorders", "__consumer_offsets", state_topic("a"), "orders.replica", "x-internal"]
    assert chosen_topics(names, (), "orders.*") == ["orders", "orders.eu"]
    assert chosen_topics(names, (), ".*") == ["orders", "orders.eu", "reorders"]
    assert chosen_topics(names, (), "x|orders") == ["orders"], "an alternative is of the whole"


def test_listed_names_are_used_literally_once_and_in_order() -> None:
    assert chosen_topics([], ["b", "__a", "b"], None) == ["__a", "b"]


def test_groups_of_tools_are_left_out() -> None:
    names = ["buyers", "console-consumer-12", "connect-sink", "__x", "sellers"]
    assert chosen_groups(names, ".*") == ["buyers", "sellers"]


@pytest.mark.parametrize("choose", [lambda: chosen_topics(["a"], (), "("), lambda: chosen_groups(["a"], "[")])
def test_an_invalid_pattern_is_reported(choose: object) -> None:
    with pytest.raises(ValueError, match="is no pattern"):
        choose()  # type: ignore[operator]
