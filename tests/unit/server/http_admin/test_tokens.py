"""Delegation tokens over HTTP: nobody gets those of the node, and nobody unknown gets any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.handlers.security.delegation_tokens import _check_may_ask
from kraft.network.reply import Peer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.server.http_admin.service import TOKEN_APIS, AdminService


@pytest.mark.parametrize("api_key", sorted(TOKEN_APIS))
def test_a_node_without_the_broker_role_does_not_request_tokens_as_itself(api_key: int) -> None:
    """It would be asked as a node, which may do everything, and get tokens of the node."""
    service: Any = object.__new__(AdminService)
    service._local = None
    service._bridge = SimpleNamespace(run=lambda function, *arguments: function(*arguments))
    service._holds = lambda: True
    with pytest.raises(ApiError) as refused:
        trio.run(service.call, api_key, 1, CreateDelegationTokenRequest())
    assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("protocol", "has_logged_in", "is_taken"),
    [("SASL_SSL", None, True), ("SASL_SSL", False, False), ("PLAINTEXT", True, True), ("PLAINTEXT", None, False)],
)
def test_a_token_request_over_http_uses_the_http_login_and_not_the_listener(
    protocol: str, has_logged_in: bool | None, is_taken: bool
) -> None:
    peer = Peer("10.0.0.7", "CLIENTS", ("127.0.0.1", 9092), "User:alice")
    peer.has_logged_in = has_logged_in
    context: Any = SimpleNamespace(peer=peer, principal=peer.principal)
    node: Any = SimpleNamespace(config=SimpleNamespace(security_protocols={"CLIENTS": protocol}))
    if is_taken:
        _check_may_ask(context, node)
        return
    with pytest.raises(ApiError):
        _check_may_ask(context, node)
