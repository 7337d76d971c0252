"""kraft/share/share_activity.py"""

from __future__ import annotations

import pytest

from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.share import share_activity
from kraft.share.acknowledgement import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acknowledgement
from kraft.share.share_activity import ShareActivity


def test_records_are_counted_by_type_of_acknowledgement_and_gaps_are_not() -> None:
    activity = ShareActivity()
    activity.count_acknowledgements(
        [Acknowledgement(0, 9, [ACCEPT]), Acknowledgement(10, 14, [RELEASE, GAP, REJECT, RENEW, ACCEPT])]
    )
    assert activity.acknowledged == {ACCEPT: 11, RELEASE: 1, REJECT: 1, RENEW: 1}


def test_expired_locks_are_kept_for_a_limited_number_of_share_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_activity, "TIMED_OUT_MAX", 2)
    activity = ShareActivity()
    keys = [SharePartitionKey("g", bytes(16), index) for index in range(3)]
    for key in (keys[0], keys[1], keys[0], keys[2]):
        activity.count_timeouts(key, 5)
    assert activity.timed_out == {keys[1]: 5, keys[2]: 5}
    assert activity.locks_timed_out == 20
