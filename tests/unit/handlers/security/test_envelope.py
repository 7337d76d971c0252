"""kraft/handlers/security/envelope.py: who may speak for others, and what travels with whom."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.handlers.registry import CONTROLLER, Handler, Registry, RequestContext, between
from kraft.handlers.security import envelope
from kraft.handlers.security.envelope import decode_principal, encode_principal
from kraft.handlers.security.permissions import ANYBODY
from kraft.network.reply import Peer
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.security.acl_rules import AclRules
from kraft.security.authorizer import Authorizer
from tests.properties.access_decisions import Deaf

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


class Controller:
    """Its listener takes envelopes, and in them CreateTopics, whose contexts are kept."""

    def __init__(self) -> None:
        self.seen: list[RequestContext] = []
        creating = Handler(ApiKey.CREATE_TOPICS, between(2, 7), permission=ANYBODY, listeners=(CONTROLLER,))

        @creating.serve
        async def serve(request: CreateTopicsRequest, context: RequestContext, node: Any) -> CreateTopicsResponse:
            self.seen.append(context)
            return CreateTopicsResponse()

        self.registry = Registry(CONTROLLER, [creating])
        authorizer = Authorizer(frozenset(("User:node",)), allows_without_rules=False, listener=Deaf())
        authorizer.take_rules(AclRules())
        self._envelopes = envelope.API.guarded(authorizer)

    async def hand(self, sender: str, principal: bytes) -> None:
        """An envelope by `sender`, as if for `principal`."""
        peer = Peer("10.0.0.1", CONTROLLER, ("10.0.0.9", 9093), sender)
        request = EnvelopeRequest(
            request_data=encode_request(ApiKey.CREATE_TOPICS, 5, 7, "me", CreateTopicsRequest())[SIZE_BYTES:],
            request_principal=principal,
            client_host_address=ipaddress.ip_address("10.1.2.3").packed,
        )
        serve: Callable[..., Awaitable[Any]] | None = self._envelopes.serve_function
        assert serve is not None
        await serve(request, RequestContext(peer, ApiKey.ENVELOPE, 0, 1, None), self)


def test_only_a_principal_with_cluster_action_may_send_envelopes() -> None:
    controller = Controller()
    with pytest.raises(ApiError) as refused:
        trio.run(controller.hand, "User:alice", encode_principal("User:node", False))
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert controller.seen == []
    trio.run(controller.hand, "User:node", encode_principal("User:alice", False))
    [context] = controller.seen
    assert (context.principal, context.peer.host, context.peer.forwarded) == ("User:alice", "10.1.2.3", True)


@pytest.mark.parametrize("by_token", [False, True])
def test_a_token_login_stays_a_token_login_at_the_controller(by_token: bool) -> None:
    controller = Controller()
    trio.run(controller.hand, "User:node", encode_principal("User:alice", by_token))
    assert [context.peer.by_token for context in controller.seen] == [by_token]


@given(NAMES, st.booleans())
def test_a_principal_survives_an_envelope_unchanged(name: str, by_token: bool) -> None:
    assert decode_principal(encode_principal(f"User:{name}", by_token)) == (f"User:{name}", by_token)


@given(st.none() | st.binary(max_size=40) | st.binary(max_size=40).map(lambda rest: b"\0\0" + rest))
def test_any_envelope_principal_bytes_are_decoded_or_refused(data: bytes | None) -> None:
    codes = []
    try:
        principal, _ = decode_principal(data)
        assert ":" in principal
    except ApiError as refused:
        codes.append(refused.code)
    assert codes in ([], [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE])
