"""Histories that the checker judges."""

from __future__ import annotations

from typing import Any

from jepsen.checker.operations import (
    OK,
    FinalRead,
    Poll,
    ReplicaContent,
    ReplicaState,
    Send,
)


def at(began: float, ended: float | None = None) -> dict[str, Any]:
    return {"began": began, "ended": began + 1 if ended is None else ended, "outcome": OK, "topic": "t", "partition": 0}


def send(who: str, first: int, count: int, offset: int, began: float, ended: float | None = None, **more: Any) -> Send:
    return Send(
        process=who,
        values=[f"{who}:{number}" for number in range(first, first + count)],
        offset=offset,
        **{**at(began, ended), **more},
    )


def lost_answer(who: str, first: int, count: int, began: float, **more: Any) -> Send:
    values = [f"{who}:{number}" for number in range(first, first + count)]
    return Send(process=who, values=values, topic="t", partition=0, began=began, **more)


def records(first: int, *values: str, epoch: int = 1) -> list[tuple[int, str, int]]:
    return [(first + index, value, epoch) for index, value in enumerate(values)]


def poll(began: float, position: int, *values: str, who: str = "r", **more: Any) -> Poll:
    return Poll(process=who, position=position, records=records(position, *values), **{**at(began), **more})


def final(*values: str, start: int = 0, **more: Any) -> FinalRead:
    return FinalRead(
        process="f", start=start, end=start + len(values), records=records(start, *values), **{**at(100), **more}
    )


def replica(node: str, *, leads: bool = False, began: float = 1.0, **more: Any) -> ReplicaState:
    facts = {
        "leader_epoch": 1,
        "partition_epoch": 1,
        "isr": [1, 2],
        "isr_recorded": [1, 2],
        "log_start": 0,
        "high_watermark": 2,
        "log_end": 3,
        **more,
    }
    return ReplicaState(process=node, topic="t", partition=0, began=began, is_leader=leads, **facts)


def content(node: str, **more: Any) -> ReplicaContent:
    return ReplicaContent(
        process=node,
        topic="t",
        partition=0,
        began=90,
        **{"start": 0, "end": 6, "batches": "b", "epochs": "e", "producers": "p", **more},
    )


def keyed(*pairs: tuple[str, str]) -> FinalRead:
    return final(*(value for _, value in pairs), keys=[key for key, _ in pairs], compacted=True)
