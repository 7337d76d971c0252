"""What a SASL listener takes before, during and after a login."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from kraft.common.errors import ProtocolError
from kraft.handlers.all_handlers import broker_registry
from kraft.network.login_outcome import LoginOutcome
from kraft.network.logins import LOGIN_SECONDS_MAX, Logins
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import encode_request
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.unit.coordinator.fakes import TrioClock
from tests.unit.handlers.security.sasl_exchange import Door

GOOD, BAD = b"\0alice\0a", b"\0alice\0b"


def run(play: Any) -> None:
    trio.run(play, clock=MockClock(autojump_threshold=0))


def test_a_login_gives_the_connection_its_principal() -> None:
    async def play() -> None:
        door = Door()
        assert (await door.handshake())[0].mechanisms == ["PLAIN"]
        answer, closes = await door.say(GOOD)
        assert (answer.error_code, answer.session_lifetime_ms, closes) == (0, 0, False)
        assert door.peer.proven
        await door.heartbeat()
        assert door.seen == ["User:alice"]
        assert (await door.handshake())[0].error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await door.say(GOOD))[0].error_code == ErrorCode.ILLEGAL_SASL_STATE

    run(play)


def test_sasl_tokens_without_headers_follow_a_handshake_of_version_0() -> None:
    async def play() -> None:
        door = Door()
        await door.handshake(version=0)
        assert await door.frame(GOOD) == (b"", False)
        await door.heartbeat()
        assert door.seen == ["User:alice"]
        guessing = Door()
        await guessing.handshake(version=0)
        assert await guessing.frame(BAD) == (b"", True)

    run(play)


def test_each_login_is_logged_with_the_claimed_name() -> None:
    async def play() -> None:
        door = Door()
        await door.handshake()
        await door.say(GOOD)
        assert door.outcomes == [LoginOutcome("PLAIN", "127.0.0.1", "alice")]
        for message, user in ((BAD, "alice"), (b"nonsense", "")):
            guessing = Door()
            await guessing.handshake()
            await guessing.say(message)
            [outcome] = guessing.outcomes
            assert outcome[:4] == ("PLAIN", "127.0.0.1", user, "credentials")
        asking = Door()
        await asking.handshake("GSSAPI")
        [outcome] = asking.outcomes
        assert (outcome.mechanism, outcome.failure) == ("none", "mechanism")
        assert "GSSAPI" in outcome.reason

    run(play)


def test_a_failed_login_is_answered_after_a_delay_and_closes_the_connection() -> None:
    async def play() -> None:
        door = Door()
        await door.handshake()
        began = door.clock.now()
        answer, closes = await door.say(BAD)
        assert (answer.error_code, closes) == (ErrorCode.SASL_AUTHENTICATION_FAILED, True)
        assert "Invalid username or password" in answer.error_message
        assert door.clock.now() - began >= 0.1
        with pytest.raises(ProtocolError, match="has failed"):
            await door.say(GOOD)
        assert not door.peer.proven

    run(play)


def test_an_unknown_mechanism_is_answered_with_the_enabled_mechanisms() -> None:
    async def play() -> None:
        answer, closes = await Door().handshake("GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
        assert closes

    run(play)


def test_no_other_request_is_served_before_or_during_a_login() -> None:
    async def play() -> None:
        for door in (Door(), Door()):
            with pytest.raises(ProtocolError):
                await door.heartbeat()
            with pytest.raises(ProtocolError):
                await door.say(GOOD)
            await door.handshake()
            answer, closes = await door.ask(HeartbeatRequest(), 4)
            assert (answer.error_code, closes) == (ErrorCode.ILLEGAL_SASL_STATE, True)
            with pytest.raises(ProtocolError, match="has failed"):
                await door.heartbeat()
            assert door.seen == []

    run(play)


UNEXPECTED = "Unexpected Kafka request of type {} during SASL authentication."


def test_every_api_has_an_error_response_during_a_login() -> None:
    """After connection.failed.authentication.delay.ms, as a failed login. Kafka 4.3.1 gave these answers."""

    async def play() -> None:
        for request, version, name in (
            (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, "API_VERSIONS"),
            (SaslHandshakeRequest(mechanism="PLAIN"), 1, "SASL_HANDSHAKE"),
            (ListGroupsRequest(), 5, "LIST_GROUPS"),
        ):
            door = Door(serves=broker_registry().handlers())
            await door.handshake()
            began = door.clock.now()
            answer, closes = await door.ask(request, version)
            assert (answer.error_code, closes) == (ErrorCode.ILLEGAL_SASL_STATE, True)
            assert door.clock.now() - began >= 0.1
            assert [each[3:] for each in door.outcomes] == [("request", UNEXPECTED.format(name))]

    run(play)


def test_the_error_message_during_a_login_uses_the_field_of_the_api() -> None:
    async def play() -> None:
        told = []
        for request, version in (
            (ConsumerGroupHeartbeatRequest(), 0),
            (FindCoordinatorRequest(), 3),
            (DescribeClusterRequest(), 1),
        ):
            door = Door(serves=broker_registry().handlers())
            await door.handshake()
            told.append((await door.ask(request, version))[0].error_message)
        assert told == [
            None,
            "Request is not valid given the current SASL state.",
            UNEXPECTED.format("DESCRIBE_CLUSTER"),
        ]

    run(play)


def test_partitions_and_topics_carry_the_error_code_during_a_login() -> None:
    topic_id = b"1" * 16
    written = TopicProduceData(name="a", topic_id=topic_id, partition_data=[PartitionProduceData(index=3, records=b"")])
    read = FetchTopic(topic="a", topic_id=topic_id, partitions=[FetchPartition(partition=3)])

    async def play() -> None:
        async def ask(request: Any, version: int) -> Any:
            door = Door(serves=broker_registry().handlers())
            await door.handshake()
            return (await door.ask(request, version))[0]

        for version in (3, 12, 13):
            [topic] = (await ask(ProduceRequest(acks=1, topic_data=[written]), version)).responses
            assert (topic.name, topic.topic_id) == (("", topic_id) if version == 13 else ("a", bytes(16)))
            [told] = topic.partition_responses
            assert (told.index, told.error_code, told.base_offset) == (3, ErrorCode.ILLEGAL_SASL_STATE, -1)
            assert told.error_message == (UNEXPECTED.format("PRODUCE") if version > 3 else None)
        for version in (4, 12):
            answer = await ask(FetchRequest(topics=[read]), version)
            assert answer.error_code == (ErrorCode.ILLEGAL_SASL_STATE if version > 4 else 0)
            [part] = answer.responses[0].partitions
            assert (answer.responses[0].topic, part.partition_index) == ("a", 3)
            assert (part.error_code, part.high_watermark) == (ErrorCode.ILLEGAL_SASL_STATE, -1)
            assert bytes(part.records) == b""
        answer = await ask(FetchRequest(topics=[read]), 13)
        assert (answer.error_code, answer.responses) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        answer = await ask(MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 12)
        assert [(each.name, each.error_code) for each in answer.topics] == [("a", ErrorCode.ILLEGAL_SASL_STATE)]
        assert (await ask(ApiVersionsRequest(), 0)).error_code == ErrorCode.ILLEGAL_SASL_STATE

    run(play)


def test_a_request_without_an_error_response_closes_the_connection_during_a_login() -> None:
    async def play() -> None:
        unanswered = encode_request(ApiKey.PRODUCE, 12, 7, "me", ProduceRequest(acks=0))[4:]
        unserved = struct.pack(">hhih", ApiKey.HEARTBEAT, 99, 7, -1)
        unknown = struct.pack(">hhih", 1234, 0, 7, -1)
        for frame in (unanswered, unserved, unknown):
            door = Door(serves=broker_registry().handlers())
            await door.handshake()
            with pytest.raises(ProtocolError):
                await door.frame(frame)
            with pytest.raises(ProtocolError, match="has failed"):
                await door.say(GOOD)

    run(play)


def test_an_unsupported_api_versions_version_is_answered_in_version_0() -> None:
    async def play() -> None:
        door = Door(serves=broker_registry().handlers())
        await door.handshake()
        data, closes = await door.frame(struct.pack(">hhihb", ApiKey.API_VERSIONS, 99, 7, -1, 0))
        assert (data, closes) == (struct.pack(">ihi", 7, ErrorCode.ILLEGAL_SASL_STATE, 0), True)

    run(play)


def test_an_expiring_sasl_session_is_reauthenticated_or_closed() -> None:
    async def play() -> None:
        door = Door(session_ms_max=1000)
        await door.handshake()
        assert (await door.say(GOOD))[0].session_lifetime_ms == 1000
        await trio.sleep(0.9)
        await door.handshake()
        await door.say(GOOD)
        await trio.sleep(0.9)
        await door.heartbeat()
        await trio.sleep(0.2)
        with pytest.raises(ProtocolError, match="has ended"):
            await door.heartbeat()
        await door.handshake()
        assert (await door.say(b"\0bob\0b"))[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run(play)


HEADS = st.builds(
    struct.Struct(">hhih").pack, st.sampled_from([17, 36, 18, 12]), st.integers(0, 3), st.just(1), st.just(-1)
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40) | st.builds(lambda head, rest: head + rest, HEADS, st.binary(max_size=40)), max_size=4
    )
)
def test_no_frames_except_a_valid_password_log_a_client_in(frames: list[bytes]) -> None:
    """Each is answered, or breaks the protocol."""

    async def play() -> None:
        door = Door()
        for frame in frames:
            try:
                await door.frame(frame)
            except ProtocolError:
                break
        assert door.seen == []
        assert not door.peer.proven

    run(play)


class Closing:
    def __init__(self) -> None:
        self.last_active = 0.0
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_the_number_and_time_of_unauthenticated_connections_are_limited() -> None:
    async def play() -> None:
        logins = Logins(TrioClock(), 1000, count_max=2)
        first, second, third = Closing(), Closing(), Closing()
        for each in (first, second, third):
            logins.enter(each)
        assert (first.closed, second.closed, len(logins)) == (True, False, 2)
        logins.leave(second)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logins.run)
            await trio.sleep(LOGIN_SECONDS_MAX - 2)
            assert not third.closed
            await trio.sleep(4)
            nursery.cancel_scope.cancel()
        assert (second.closed, third.closed, len(logins)) == (False, True, 0)

    run(play)
