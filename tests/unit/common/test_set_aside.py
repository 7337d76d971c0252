from __future__ import annotations

import pytest

from kraft.common.set_aside import ITEMS_MAX, Failed, SetAside


class Clock:
    ms = 5

    def wall_ms(self) -> int:
        return self.ms


def _made():
    notes = []
    return SetAside(Clock(), notes.append), notes


def test_one_failing_item_is_told_and_the_others_go_on():
    aside, notes = _made()
    done = []
    for item in ("a", "b", "c"):
        with aside.guard("sweep", item):
            assert item != "b", "no b"
            done.append(item)
    assert done == ["a", "c"]
    (failed,) = aside.items()
    assert (failed.work, failed.item, failed.since_ms, failed.count) == ("sweep", "b", 5, 1)
    assert failed.error.startswith("AssertionError: no b")
    assert aside.failures == {"sweep": 1}
    (note,) = notes
    assert (note["event"], note["level"], note["item"]) == ("background_work_failed", "error", "b")
    assert "test_set_aside" in note["trace"]


def test_an_item_that_fails_again_keeps_its_beginning_and_one_that_succeeds_is_forgotten():
    aside, _ = _made()
    for ms in (5, 9):
        Clock.ms = ms
        with aside.guard("sweep", "a"):
            raise ValueError(ms)
    Clock.ms = 5
    assert aside.items() == [Failed("sweep", "a", 5, 2, "ValueError: 9")]
    with aside.guard("sweep", "a"):
        pass
    assert aside.items() == []
    assert aside.failures == {"sweep": 2}


def test_what_stops_the_node_passes():
    aside, notes = _made()
    with pytest.raises(KeyboardInterrupt), aside.guard("sweep", "a"):
        raise KeyboardInterrupt
    assert (aside.items(), notes) == ([], [])


def test_no_more_items_are_remembered_than_the_bound():
    aside, notes = _made()
    for item in range(ITEMS_MAX + 2):
        with aside.guard("sweep", str(item)):
            raise ValueError(item)
    assert len(aside.items()) == ITEMS_MAX
    assert aside.failures == {"sweep": ITEMS_MAX + 2}
    assert len(notes) == ITEMS_MAX + 2
