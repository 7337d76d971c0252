"""kraft/common/windowed.py"""

from __future__ import annotations

from kraft.common.windowed import SAMPLE_SECONDS, Windowed


def test_recent_values_are_averaged_and_the_maximum_is_kept() -> None:
    window = Windowed()
    for value, now in ((2.0, 0.0), (4.0, 1.0), (9.0, 40.0)):
        window.record(value, now)
    assert (window.average(41.0), window.maximum(41.0)) == (5.0, 9.0)


def test_values_older_than_the_window_do_not_count() -> None:
    window = Windowed()
    window.record(100.0, 0.0)
    window.record(1.0, 45.0)
    assert (window.average(59.0), window.maximum(59.0)) == (50.5, 100.0)
    assert (window.average(61.0), window.maximum(61.0), window.maximum(200.0), window.average(200.0)) == (
        1.0,
        1.0,
        None,
        None,
    )
    window.record(3.0, 300.0)
    assert window.average(300.0) == 3.0


def test_a_rate_covers_at_least_one_sample_interval() -> None:
    window = Windowed()
    assert window.rate(0.0) == 0.0
    window.record(60.0, 0.0)
    assert window.rate(0.0) == 60.0 / SAMPLE_SECONDS
    assert window.rate(10.0) == 60.0 / 40
    window.record(60.0, 35.0)
    assert window.rate(50.0) == 120.0 / 50
    assert window.rate(120.0) == 0.0
