"""Fetch against a broker over the simulated disk: what is enough, what fits, sessions, and what a reader is told
when something is wrong."""

from __future__ import annotations

import errno
from typing import Any

import trio

from kraft.network.reply import Reply
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch
from kraft.replication.partition import TransactionalAppend
from kraft.security.acl_rules import AclRules
from kraft.security.acls import CLUSTER_NAME, AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.verification import NOT_REQUIRED
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.handlers.fetch.fetches import append, codes, counts, fetch, wanted
from tests.unit.server.brokers import NODE, batch, broker, decoded, simulate

VERSION = 12


def test_a_fetch_does_not_wait_for_more_bytes_than_may_be_sent() -> None:
    """min_bytes beyond max_bytes means as much as fits."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            size = append(made)
            append(made)
            outcome = made.dispatch(fetch(wanted((0, 0)), wait_ms=60_000, min_bytes=1 << 20, max_bytes=size), VERSION)
            assert isinstance(outcome, Reply)
            assert counts(decoded(1, VERSION, outcome)) == [1]

    simulate(play)


def test_the_first_batch_is_returned_whole_and_later_ones_as_far_as_they_fit() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 3)
            for index in range(3):
                append(made, index, size=10_000)
            assert counts(await made.ask(fetch(wanted((0, 0), (1, 0), (2, 0)), max_bytes=1), VERSION)) == [1, 0, 0]
            assert counts(await made.ask(fetch(wanted((0, 0), (1, 0), (2, 0), max_bytes=1)), VERSION)) == [1, 0, 0]
            assert counts(await made.ask(fetch(wanted((0, 0), (1, 0), (2, 0)), max_bytes=25_000), VERSION)) == [1, 1, 0]
            assert counts(await made.ask(fetch(wanted((0, 1), (1, 0), (2, 0)), max_bytes=1), VERSION)) == [0, 1, 0]

    simulate(play)


def test_a_parked_fetch_completes_only_when_min_bytes_are_there() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            size = append(made)
            outcome = made.dispatch(fetch(wanted((0, 0)), wait_ms=60_000, min_bytes=2 * size), VERSION)
            assert not isinstance(outcome, Reply)
            answers: list[Any] = []

            async def wait() -> None:
                answers.append(decoded(1, VERSION, await outcome))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await universe.sleep(1)
                assert not answers
                append(made)
                await universe.sleep(0.01)
                assert counts(answers[0]) == [2]
            assert not made.partition("t").has_waiters

    simulate(play)


def test_a_parked_fetch_completes_at_max_wait() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            began = universe.time.now
            assert counts(await made.ask(fetch(wanted((0, 0)), wait_ms=700), VERSION)) == [0]
            assert 0.69 < universe.time.now - began < 0.8
            assert not made.partition("t").has_waiters

    simulate(play)


def test_one_partition_with_an_error_completes_the_fetch_with_the_other_partitions_records() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            topics = wanted((0, 5)) + wanted((0, 0), topic="missing")
            response = await made.ask(fetch(topics, wait_ms=60_000), VERSION)
            assert codes(response) == [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    simulate(play)


def test_a_session_returns_only_changes_and_ends_with_its_last_partition() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", 2)
            first = await made.ask(fetch(wanted((0, 0), (1, 0)), epoch=0), VERSION)
            assert first.session_id > 0
            assert codes(first) == [0, 0]
            quiet = await made.ask(fetch([], epoch=1, session_id=first.session_id), VERSION)
            assert (quiet.responses, quiet.session_id) == ([], first.session_id)
            append(made, 1)
            news = await made.ask(fetch([], epoch=2, session_id=first.session_id), VERSION)
            assert [data.partition_index for data in news.responses[0].partitions] == [1]
            wrong = await made.ask(fetch([], epoch=2, session_id=first.session_id), VERSION)
            assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            both = [ForgottenTopic(topic="t", partitions=[0, 1])]
            over = await made.ask(fetch([], epoch=3, session_id=first.session_id, forgotten_topics_data=both), VERSION)
            assert (over.error_code, over.session_id) == (0, 0)
            assert len(made.server.services.sessions) == 0
            gone = await made.ask(fetch([], epoch=4, session_id=first.session_id), VERSION)
            assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    simulate(play)


def test_a_session_reports_an_error_until_it_is_resolved_and_then_the_partition_again() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            first = await made.ask(fetch(wanted((0, 0)), epoch=0), VERSION)
            assert codes(first) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            made.topic("t")
            second = await made.ask(fetch([], epoch=1, session_id=first.session_id), VERSION)
            assert codes(second) == [0]

    simulate(play)


def test_a_diverging_fetch_before_the_log_start_is_out_of_range() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            for _ in range(3):
                append(made)
            made.partition("t").delete_records_before(2)
            response = await made.ask(fetch(wanted((0, 1), current_leader_epoch=0, last_fetched_epoch=0)), VERSION)
            assert codes(response) == [ErrorCode.OFFSET_OUT_OF_RANGE]
            response = await made.ask(fetch(wanted((0, 9), current_leader_epoch=0, last_fetched_epoch=0)), VERSION)
            diverging = response.responses[0].partitions[0].diverging_epoch
            assert (diverging.epoch, diverging.end_offset) == (0, 3)

    simulate(play)


def test_a_fetch_from_a_broker_that_is_no_replica_is_not_an_acknowledgement() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t", replicas=(NODE, 2))
            append(made)
            stranger = ReplicaState(replica_id=3, replica_epoch=1)
            topics = [
                FetchTopic(
                    topic_id=made.partition("t").topic_id,
                    partitions=[FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)],
                )
            ]
            response = await made.ask(fetch(topics, replica_state=stranger), 17)
            assert codes(response) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
            topics[0].partitions[0].current_leader_epoch = 0
            response = await made.ask(fetch(topics, replica_state=stranger), 17)
            assert codes(response) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
            assert made.partition("t").log.high_watermark == 0

    simulate(play)


def test_only_brokers_may_fetch_with_a_replica_id() -> None:
    """Who may Read a topic reads what is committed. As a replica it would acknowledge records, and see all."""

    async def play(universe: Universe) -> None:
        keys = ["authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
        async with broker(universe, sets=keys) as made:
            made.publish(made.register(2))
            made.topic("t", replicas=(NODE, 2))
            append(made)
            authorizer = made.server.authorizer
            assert authorizer is not None
            follows = FetchRequest(
                replica_state=ReplicaState(replica_id=2, replica_epoch=1),
                max_bytes=1 << 20,
                topics=[
                    FetchTopic(
                        topic_id=made.partition("t").topic_id,
                        partitions=[FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)],
                    )
                ],
            )
            for right, may_read, may_follow in (
                (allowed(Operation.READ, ResourceKind.TOPIC, "t"), True, False),
                (allowed(Operation.CLUSTER_ACTION, ResourceKind.CLUSTER, CLUSTER_NAME), False, True),
            ):
                authorizer.take_rules(AclRules().changed((), (right,)))
                codes_of = {True: [ErrorCode.NONE], False: [ErrorCode.TOPIC_AUTHORIZATION_FAILED]}
                assert codes(await made.ask(fetch(wanted((0, 0))), VERSION)) == codes_of[may_read]
                assert codes(await made.ask(follows, 17)) == codes_of[may_follow]
                assert made.partition("t").log.high_watermark == int(may_follow)

    simulate(play)


def allowed(operation: int, kind: int, name: str) -> AccessControlEntry:
    """To everybody, this operation on this resource."""
    return AccessControlEntry(kind, name, PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)


def test_a_failed_read_takes_the_directory_offline_and_is_reported() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a", "/b"]) as made:
            made.topic("t")
            append(made)
            made.logs.cache.clear()
            universe.disk("broker").faults = [Fault("open", errno.EIO, "/t-0/")]
            assert codes(await made.ask(fetch(wanted((0, 0))), VERSION)) == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert sum(directory.is_online for directory in made.logs.directories) == 1

    simulate(play)


def test_a_shortage_of_descriptors_is_a_retriable_fetch_error() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            append(made)
            made.logs.cache.clear()
            universe.disk("broker").faults = [Fault("open", errno.EMFILE, "/t-0/")]
            assert codes(await made.ask(fetch(wanted((0, 0))), VERSION)) == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert codes(await made.ask(fetch(wanted((0, 0))), VERSION)) == [0]

    simulate(play)


def test_a_transaction_marker_makes_its_records_readable_immediately() -> None:
    """A read_committed Fetch that wants many bytes counts those of the open transaction, although it gets them only
    with the marker, which is small."""

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.topic("t")
            now = made.world.clock.wall_ms()
            partition = made.partition("t")
            data = batch(
                b"v" * 5000,
                timestamp_ms=now,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            partition.append(memoryview(data), 1, now, 0, TransactionalAppend(NOT_REQUIRED))
            outcome = made.dispatch(fetch(wanted((0, 0)), wait_ms=60_000, min_bytes=4000, isolation_level=1), VERSION)
            assert not isinstance(outcome, Reply)
            replies: list[Reply] = []

            async def wait() -> None:
                replies.append(await outcome)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await universe.sleep(1)
                assert not replies
                marker = build_marker_batch(
                    TransactionMarker(ControlRecordType.COMMIT, 0),
                    offset=0,
                    timestamp_ms=now,
                    leader_epoch=0,
                    producer_id=7,
                    producer_epoch=0,
                )
                partition.append(memoryview(marker), 1, now, AppendOrigin.COORDINATOR)
                await universe.sleep(1)
                assert counts(decoded(1, VERSION, replies[0])) == [2]

    simulate(play)
