"""Groups whose members change the protocol."""

from __future__ import annotations

SECONDS_MAX = 60


SETTINGS = (
    "--set",
    "group.consumer.min.heartbeat.interval.ms=100",
    "--set",
    "group.consumer.heartbeat.interval.ms=100",
    "--set",
    "group.consumer.assignment.interval.ms=0",
    "--set",
    "group.initial.rebalance.delay.ms=0",
)
