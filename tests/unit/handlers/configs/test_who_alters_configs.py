"""What a controller knows of who asks for a change of configurations: brokers have checked what clients ask of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.handlers.controller_apis import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from kraft.handlers.registry import Handler, RequestContext
from kraft.network.reply import Peer
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.alter_configs_response import AlterConfigsResponse
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse


@pytest.mark.parametrize(
    ("handler", "request_type", "response_type"),
    [
        (ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse),
        (INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    ],
)
@pytest.mark.parametrize(
    ("listener", "enveloped", "forwarded"),
    [("CONTROLLER", False, False), ("CONTROLLER", True, True), ("PLAINTEXT", False, True)],
)
def test_a_request_by_a_broker_counts_as_forwarded(
    handler: Handler, request_type: Any, response_type: Any, listener: str, enveloped: bool, forwarded: bool
) -> None:
    """With both roles in one process the broker calls the controller without an Envelope."""
    seen: list[bool] = []

    async def alter(request: Any, context: Any) -> Any:
        seen.append(context.forwarded)
        return response_type()

    node: Any = SimpleNamespace(
        config=SimpleNamespace(controller_listener_names=("CONTROLLER",)),
        controller=SimpleNamespace(requests=SimpleNamespace(alter_configs=alter, incremental_alter_configs=alter)),
        audit=SimpleNamespace(handle_changes=lambda *_: None),
    )
    peer = Peer("10.0.0.1", listener, ("10.0.0.9", 9093))
    peer.forwarded = enveloped
    assert handler.serve_function is not None
    trio.run(handler.serve_function, request_type(), RequestContext(peer, request_type.API_KEY, 1, 1, None), node)
    assert seen == [forwarded]
