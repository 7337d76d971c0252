"""Faults of clocks. A wall clock jumps, or runs too fast or too slowly. A monotonic clock only runs too fast or too
slowly, and so does every timeout.

The fault had an effect if the node read a false time. The preloaded library counts these reads (`jepsen/preload`). At
the end the wall clock is set to the true time, so it jumps a second time. A monotonic clock keeps its offset, because
it must never go back. File times are the kernel's and stay right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jepsen.nemesis.injection import Context, Injection, NotNow, grown
from jepsen.preload.page import Page

JUMPS_SECONDS = (-86_400.0, -3600.0, -30.0, 30.0, 3600.0, 86_400.0)
WALL_RATES_PPM = (-500_000, 1_000_000, 20_000_000)
MONOTONIC_RATES_PPM = (-500_000, -200_000, 500_000, 1_000_000)


def wall_answers(page: Page) -> int:
    """The number of false wall-clock times that the node was given."""
    return page.counters().wall_answers


def jump(role: str) -> Callable[[Context], Injection]:
    """Move the wall clock of one node by half a minute to a day, forward or back."""

    def begin(context: Context) -> Injection:
        number = context.pick(role)
        page = context.page(number)
        seconds = context.chance.choice(JUMPS_SECONDS)
        told = grown(partial(wall_answers, page))
        page.jump(seconds)

        def end() -> bool:
            bit = told() and page.counters().wall_skew_ns == int(seconds * 1e9)
            page.jump(0)
            return bit

        return Injection(kind="clock-jump", role=f"{role} n{number}, {seconds:+g} s", busy=frozenset({number}), end=end)

    return begin


def drift(context: Context) -> Injection:
    """Run the wall clocks of some nodes at half, twice or twenty times the speed, each at its own."""
    numbers = sorted(context.chance.sample(context.free(), min(len(context.free()), 3)))
    if not numbers:
        raise NotNow("no node is free")
    pages = {number: context.page(number) for number in numbers}
    rates = {number: context.chance.choice(WALL_RATES_PPM) for number in numbers}
    told = [grown(partial(wall_answers, page)) for page in pages.values()]
    for number, page in pages.items():
        page.drift(rates[number])

    def end() -> bool:
        bit = all(each() for each in told)
        for page in pages.values():
            page.jump(0)
        return bit

    rates_told = ", ".join(f"n{number} {rate / 1e6 + 1:g} times" for number, rate in rates.items())
    return Injection(kind="clock-drift", role=rates_told, busy=frozenset(numbers), end=end)


def timeouts(role: str) -> Callable[[Context], Injection]:
    """Run the monotonic clock of one node at half to twice the speed: its timeouts are too long or too short."""

    def begin(context: Context) -> Injection:
        number = context.pick(role)
        if not context.cluster.nodes[number].program.monotonic_may_drift:
            raise NotNow("the node's waits go by the kernel's clock")
        page = context.page(number)
        rate = context.chance.choice(MONOTONIC_RATES_PPM)
        told = grown(lambda: page.counters().monotonic_answers)
        page.drift_monotonic(rate)

        def end() -> bool:
            bit = told()
            page.drift_monotonic(0)
            return bit

        return Injection(
            kind="clock-speed", role=f"{role} n{number}, {rate / 1e6 + 1:g} times", busy=frozenset({number}), end=end
        )

    return begin
