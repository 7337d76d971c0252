"""The queue to an OTLP receiver, and the requests that are made of pushes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraft.telemetry import export as module
from kraft.telemetry.export import DROPPED, ExportQueue, WaitingPush, rejected_points, request_of
from kraft.telemetry.otlp import InvalidTelemetry, read_push
from kraft.world.steps import at_once
from tests.unit.telemetry.pushes import attributes, gauge, number, part, point, push

CLIENT = {"client_id": "billing", "broker_id": "1"}


def made(*pushes: tuple[bytes, Mapping[str, str]]) -> bytes:
    return at_once(request_of([WaitingPush(*each) for each in pushes]))


def test_a_request_has_all_points_and_the_attributes_of_each_client() -> None:
    one = push(gauge("a", point(1, {"k": "v"})), labels={"group_id": "g"})
    other = push(gauge("b", point(2)))
    request = made((one, CLIENT), (other, {"client_id": "second"}))
    first = made((one, CLIENT))
    assert request.startswith(first)
    read, rest = at_once(read_push(memoryview(first))), at_once(read_push(memoryview(request[len(first) :])))
    assert read.labels == {"group_id": "g", **CLIENT}
    assert rest.labels == {"client_id": "second"}
    assert [(each.name, each.attributes, each.value) for each in (*read.points, *rest.points)] == [
        ("a", (("k", "v"),), 1.0),
        ("b", (), 2.0),
    ]


def test_a_client_cannot_name_itself_in_the_attributes_that_the_broker_adds() -> None:
    false = push(gauge("a", point(1)), labels={"client_id": "another", "broker_id": "9", "own": "stays"})
    request = made((false, CLIENT))
    assert b"another" not in request
    assert at_once(read_push(memoryview(request))).labels == {"own": "stays", **CLIENT}


def test_a_push_without_a_resource_gets_one_and_other_fields_stay() -> None:
    metrics = part(1, part(2, part(2, gauge("a", point(1)))) + part(3, "schema") + number(9, 300) + b"\x55abcd")
    request = made((metrics + part(7, "unknown"), CLIENT))
    assert part(3, "schema") + number(9, 300) + b"\x55abcd" in request
    assert at_once(read_push(memoryview(request))).labels == CLIENT
    assert attributes(1, CLIENT) in request


def test_a_push_is_dropped_and_counted_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_PUSHES_MAX", 2)
    queue = ExportQueue()
    assert [queue.offer(WaitingPush(b"x", {})) for _ in range(3)] == [True, True, False]
    assert (queue.waiting, queue.pushes[DROPPED]) == (2, 1)


def test_a_push_is_dropped_and_counted_when_too_many_bytes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 10)
    queue = ExportQueue()
    assert [queue.offer(WaitingPush(bytes(size), {})) for size in (6, 5, 4)] == [True, False, True]
    queue.take()
    assert queue.offer(WaitingPush(bytes(10), {})), "what was taken leaves room"


def test_a_request_is_bounded_and_a_larger_push_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_BYTES_MAX", 10)
    queue = ExportQueue()
    for size in (11, 4, 6, 1):
        queue.offer(WaitingPush(bytes(size), {}))
    assert [[len(each.data) for each in queue.take()] for _ in range(4)] == [[11], [4, 6], [1], []]


def test_points_that_the_receiver_refused_are_read() -> None:
    assert rejected_points(part(1, number(1, 3) + part(2, "why"))) == 3
    assert rejected_points(b"") == 0
    with pytest.raises(InvalidTelemetry):
        rejected_points(b"{}")
