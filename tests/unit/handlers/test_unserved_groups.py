"""A client of a group type that is not served fails at once: its requests are advertised and refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.handlers.all_handlers import broker_registry, controller_registry
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

REQUESTS = [
    (
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m"),
    ),
]


@pytest.mark.parametrize(("key", "request_of_it"), REQUESTS)
def test_a_request_of_a_disabled_group_protocol_is_refused(key: int, request_of_it: Any) -> None:
    handler = broker_registry().get(key)
    assert handler is not None
    assert handler.serve_function is not None
    assert key in {version.api_key for version in broker_registry().api_versions}
    assert controller_registry().get(key) is None
    answer = trio.run(handler.serve_function, request_of_it, SimpleNamespace(), SimpleNamespace())
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "not served" in answer.error_message
