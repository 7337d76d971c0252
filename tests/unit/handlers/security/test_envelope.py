"""kraft/handlers/security/envelope.py: who may speak for others, and what travels with whom."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
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
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from kraft.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData, TopicData
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
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


def described(code: ErrorCode) -> DescribeQuorumResponse:
    part = PartitionData(partition_index=0, error_code=code)
    return DescribeQuorumResponse(topics=[TopicData(topic_name="__cluster_metadata", partitions=[part])])


def enveloped(request: Any, response: Any) -> EnvelopeResponse:
    """The answer to an envelope with that request, where the controller's response to it is this one."""
    handler = Handler(request.API_KEY, between(*request.VALID_VERSIONS), permission=ANYBODY, listeners=(CONTROLLER,))

    @handler.serve
    async def serve(request: Any, context: RequestContext, node: Any) -> Any:
        return response

    version = request.VALID_VERSIONS[1]
    message = EnvelopeRequest(
        request_data=encode_request(request.API_KEY, version, 7, "me", request)[SIZE_BYTES:],
        request_principal=encode_principal("User:alice", False),
        client_host_address=ipaddress.ip_address("10.1.2.3").packed,
    )
    node = SimpleNamespace(registry=Registry(CONTROLLER, [handler]))
    context = RequestContext(Peer("10.0.0.1", CONTROLLER, ("10.0.0.9", 9093)), ApiKey.ENVELOPE, 0, 1, None)
    answer: EnvelopeResponse = trio.run(envelope.API.serve_function, message, context, node)  # type: ignore[arg-type]
    return answer


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (DescribeQuorumRequest(topics=[]), described(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (AddRaftVoterRequest(), AddRaftVoterResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (RemoveRaftVoterRequest(), RemoveRaftVoterResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    ],
    ids=["DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter"],
)
def test_a_request_for_the_quorums_leader_makes_the_sender_look_for_the_controller_anew(
    request_: Any, response: Any
) -> None:
    """A broker of Apache Kafka looks for the active controller only after NOT_CONTROLLER."""
    with pytest.raises(ApiError) as refused:
        enveloped(request_, response)
    assert refused.value.code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (DescribeQuorumRequest(topics=[]), described(ErrorCode.NONE)),
        (DescribeQuorumRequest(topics=[]), described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        (AddRaftVoterRequest(), AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER)),
    ],
    ids=["described", "another topic", "voter twice"],
)
def test_other_answers_of_the_quorum_go_to_the_client(request_: Any, response: Any) -> None:
    answer = enveloped(request_, response)
    assert answer.error_code == ErrorCode.NONE
    assert answer.response_data
