"""A request that fails whole is answered with its code: by every API, in every version, whatever the code."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.handlers.all_handlers import broker_registry, controller_registry
from kraft.handlers.registry import Handler, Registry
from kraft.protocol import api_keys
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import decode_response, encode_response
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.schema import Struct, fields_of, struct_class
from kraft.world.steps import at_once

CODES = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.REQUEST_TIMED_OUT,
)
NO_ROOM = {
    (ApiKey.DESCRIBE_LOG_DIRS, 1),
    (ApiKey.DESCRIBE_LOG_DIRS, 2),
    (ApiKey.FETCH, 4),
    (ApiKey.FETCH, 5),
    (ApiKey.FETCH, 6),
}
"""Versions whose answer names what was asked for, or nothing: Kafka's tells no error there either."""

HANDLERS = [
    pytest.param(handler, id=f"{registry.listener}-{api_keys.name_of(handler.key)}")
    for registry in (broker_registry(), controller_registry())
    for handler in registry.handlers()
    if not handler.begins_at_once
]


def filled(cls: type[Struct], version: int, text: str) -> Any:
    """A message with one element in every array that the version has, and `text` in those of strings."""
    message = cls()
    for field in fields_of(cls):
        if field.is_array and field.present(version):
            kind = field.element_type
            element: Any = text if kind == "string" else 0 if kind.startswith("int") else b"1" * 16
            known = kind in ("string", "uuid") or kind.startswith("int")
            setattr(message, field.name, [element if known else filled(struct_class(cls, kind), version, text)])
    return message


def codes_in(value: Any) -> list[int]:
    """Every error code of a message, at any depth."""
    if isinstance(value, list):
        return [code for each in value for code in codes_in(each)]
    if not isinstance(value, Struct):
        return []
    found = []
    for field in fields_of(type(value)):
        part = getattr(value, field.name)
        found += [part] if field.name in ("error_code", "partition_error_code") else codes_in(part)
    return found


@pytest.mark.parametrize("handler", HANDLERS)
def test_every_version_of_every_api_carries_every_error_code(handler: Handler) -> None:
    for version in range(handler.min_version, handler.max_version + 1):
        cls = api_keys.request_class(handler.key)
        request, _ = cls.decode_from(memoryview(filled(cls, version, "x").encode(version)), 0, version)
        for code in CODES:
            for message in ("why", None):
                response = at_once(handler.error_response(request, version, code, message))
                frame = encode_response(handler.key, version, 7, response)
                _, answer = decode_response(handler.key, version, memoryview(frame)[4:])
                if (handler.key, version) not in NO_ROOM:
                    assert code in codes_in(answer), f"version {version}"


@pytest.mark.parametrize("handler", HANDLERS)
def test_an_empty_request_has_an_error_response(handler: Handler) -> None:
    """Also where nothing was asked for there is something to answer, rather than a connection to close."""
    for version in range(handler.min_version, handler.max_version + 1):
        cls = api_keys.request_class(handler.key)
        request, _ = cls.decode_from(memoryview(cls().encode(version)), 0, version)
        response = at_once(handler.error_response(request, version, ErrorCode.UNKNOWN_SERVER_ERROR, "why"))
        assert encode_response(handler.key, version, 7, response)


@pytest.mark.parametrize("registry", [broker_registry(), controller_registry()], ids=lambda each: each.listener)
@pytest.mark.parametrize("version", [4, 12])
def test_every_partition_of_a_failed_fetch_carries_the_error_code(registry: Registry, version: int) -> None:
    """Before version 7 there is no other place for it."""
    handler = registry.get(ApiKey.FETCH)
    assert handler is not None
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])
    answer = at_once(handler.error_response(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    assert [(each.partition_index, each.error_code) for each in answer.responses[0].partitions] == [
        (3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    ]
