from __future__ import annotations

import pytest

from kraft.common.errors import StorageError
from kraft.common.quarantine import ITEMS_MAX, Failed, Quarantine


class Clock:
    ms = 5

    def wall_ms(self) -> int:
        return self.ms


def _made():
    notes = []
    return Quarantine(Clock(), notes.append), notes


def test_one_failing_item_is_logged_and_the_others_continue():
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
    assert "test_quarantine" in note["trace"]


def test_an_item_that_fails_again_keeps_its_start_time_and_a_successful_one_is_forgotten():
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


@pytest.mark.parametrize(
    "problem", [OSError("disk"), StorageError("disk"), ExceptionGroup("nursery", [OSError("disk")]), KeyError("known")]
)
def test_disk_failures_and_exceptions_of_the_caller_are_raised(problem):
    aside, notes = _made()
    with pytest.raises(type(problem)), aside.guard("sweep", "a", (KeyError,)):
        raise problem
    assert (aside.items(), notes) == ([], [])


def test_an_exception_group_of_a_nursery_is_logged_by_its_cause():
    aside, _ = _made()
    with aside.guard("sweep", "a"):
        raise ExceptionGroup("nursery", [ValueError("inside")])
    assert [each.error for each in aside.items()] == ["ValueError: inside"]


def test_items_that_no_longer_exist_are_forgotten():
    aside, _ = _made()
    for work, item in (("sweep", "a"), ("sweep", "b"), ("wash", "a")):
        with aside.guard(work, item):
            raise ValueError(item)
    aside.keep("sweep", {"b"})
    assert [(each.work, each.item) for each in aside.items()] == [("sweep", "b"), ("wash", "a")]


def test_exceptions_that_stop_the_node_are_raised():
    aside, notes = _made()
    with pytest.raises(KeyboardInterrupt), aside.guard("sweep", "a"):
        raise KeyboardInterrupt
    assert (aside.items(), notes) == ([], [])


def test_the_number_of_remembered_items_is_bounded():
    aside, notes = _made()
    for item in range(ITEMS_MAX + 2):
        with aside.guard("sweep", str(item)):
            raise ValueError(item)
    assert len(aside.items()) == ITEMS_MAX
    assert aside.failures == {"sweep": ITEMS_MAX + 2}
    assert len(notes) == ITEMS_MAX + 2
