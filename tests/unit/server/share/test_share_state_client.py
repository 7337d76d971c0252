"""Which errors a share coordinator's client retries, for how long, and what it batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.common.logging import Logger
from kraft.common.quarantine import Quarantine
from kraft.coordinator.share.share_coordinator import ShareCoordinator
from kraft.coordinator.share.share_state import SharePartitionKey, StateBatch
from kraft.coordinator.share.share_states import ReadState, StateSummary
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages import delete_share_group_state_response as deleted
from kraft.protocol.messages import initialize_share_group_state_response as initialized
from kraft.protocol.messages import read_share_group_state_response as read
from kraft.protocol.messages import read_share_group_state_summary_response as summarized
from kraft.protocol.messages import write_share_group_state_response as written
from kraft.rpc_client.connection import Disconnected
from kraft.server.broker_channel import BrokerChannel
from kraft.server.share import share_state_client
from kraft.server.share.share_state_client import ShareStateClient
from tests.unit.coordinator.fakes import TrioClock
from tests.unit.coordinator.service import run

HERE, THERE = 1, 2
TOPIC_ID = bytes(15) + b"\x05"
KEY = SharePartitionKey("g", TOPIC_ID, 0)
PATIENCE = 30.0
RESPONSES: dict[int, tuple[Any, Any, Any]] = {
    83: (
        initialized.InitializeShareGroupStateResponse,
        initialized.InitializeStateResult,
        initialized.PartitionResult,
    ),
    84: (read.ReadShareGroupStateResponse, read.ReadStateResult, read.PartitionResult),
    85: (written.WriteShareGroupStateResponse, written.WriteStateResult, written.PartitionResult),
    86: (deleted.DeleteShareGroupStateResponse, deleted.DeleteStateResult, deleted.PartitionResult),
    87: (
        summarized.ReadShareGroupStateSummaryResponse,
        summarized.ReadStateSummaryResult,
        summarized.PartitionResult,
    ),
}


class NoLog:
    def debug(self, message: str, **fields: Any) -> None: ...


class Coordinators:
    """All brokers of a cluster. The next of `codes` is the error code of each partition of the next request, or a
    failure that its sender meets; then there are no errors. `gate` holds responses back."""

    def __init__(self, *codes: int | Exception, **fields: Any) -> None:
        self.codes = list(codes)
        self.fields = fields
        self.asked: list[tuple[int, Any]] = []
        self.timeouts: list[float | None] = []
        self.gate = trio.Event()
        self.gate.set()
        self.is_closed = False

    async def send(self, broker_id: int, request: Any, *, timeout_s: float | None = None) -> Any:
        self.timeouts.append(timeout_s)
        return await self._answer(broker_id, request)

    async def _serve_here(self, request: Any) -> Any:
        return await self._answer(HERE, request)

    initialize = read = write = read_summary = delete = _serve_here

    async def _answer(self, broker_id: int, request: Any) -> Any:
        self.asked.append((broker_id, request))
        await self.gate.wait()
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if isinstance(code, Exception):
            raise code
        response, topic_class, result_class = RESPONSES[request.API_KEY]
        fields = {"error_code": code, **({} if code else self.fields)}
        return response(
            results=[
                topic_class(
                    topic_id=topic.topic_id,
                    partitions=[result_class(partition=each.partition, **fields) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def close(self) -> None:
        self.is_closed = True

    def sent(self) -> list[list[SharePartitionKey]]:
        """The share partitions of each request."""
        return [
            [
                SharePartitionKey(request.group_id, topic.topic_id, each.partition)
                for topic in request.topics
                for each in topic.partitions
            ]
            for _, request in self.asked
        ]


async def no_topic() -> None:
    raise AssertionError("the topic exists")


@asynccontextmanager
async def client(
    coordinators: Coordinators,
    coordinator_of: Callable[[SharePartitionKey], int | None] = lambda _: THERE,
    create_topic: Callable[[], Awaitable[None]] = no_topic,
    knows_topic: bool = True,
) -> AsyncIterator[ShareStateClient]:
    clock = TrioClock()
    made = ShareStateClient(
        HERE,
        cast("ShareCoordinator", coordinators),
        coordinator_of,
        lambda _: knows_topic,
        create_topic,
        cast("BrokerChannel", coordinators),
        clock,
        cast("Logger", NoLog()),
        Quarantine(clock, lambda _: None),
        PATIENCE,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await trio.testing.wait_all_tasks_blocked()
        yield made
        nursery.cancel_scope.cancel()


async def refusal(ask: Awaitable[Any]) -> ApiError:
    with pytest.raises(ApiError) as refused:
        await ask
    return refused.value


@pytest.mark.parametrize("broker_id", [HERE, THERE])
def test_states_are_read_and_written_at_a_local_or_remote_coordinator(broker_id: int) -> None:
    batch = StateBatch(5, 9, 2, 1)

    async def scenario() -> None:
        coordinators = Coordinators()
        async with client(coordinators, lambda _: broker_id) as states:
            await states.initialize(KEY, 3, 5)
            await states.write(KEY, 3, 4, 5, 2, [batch])
            await states.delete(KEY)
            coordinators.fields = {
                "state_epoch": 3,
                "start_offset": 5,
                "state_batches": [read.StateBatch(first_offset=5, last_offset=9, delivery_state=2, delivery_count=1)],
            }
            assert await states.read(KEY, 4) == ReadState(3, 5, [batch])
            coordinators.fields = {
                "state_epoch": 3,
                "leader_epoch": 4,
                "start_offset": 5,
                "delivery_complete_count": 2,
            }
            assert await states.read_summary(KEY) == StateSummary(3, 4, 5, 2)
        assert {broker for broker, _ in coordinators.asked} == {broker_id}
        assert [request.API_KEY for _, request in coordinators.asked] == [83, 85, 86, 84, 87]
        assert len(coordinators.timeouts) == (0 if broker_id == HERE else 5)
        assert coordinators.sent() == [[KEY]] * 5
        (initialize, write, _, reading, _) = [request.topics[0].partitions[0] for _, request in coordinators.asked]
        assert (initialize.state_epoch, initialize.start_offset) == (3, 5)
        assert (write.state_epoch, write.leader_epoch, write.start_offset) == (3, 4, 5)
        assert (write.delivery_complete_count, write.state_batches[0].last_offset) == (2, 9)
        assert reading.leader_epoch == 4
        assert coordinators.is_closed

    run(scenario)


PASSING: list[int | Exception] = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSUPPORTED_VERSION,
    Disconnected("broken"),
    TimeoutError("late"),
    ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "no address"),
]


@pytest.mark.parametrize("problem", PASSING, ids=lambda it: name_of(it) if isinstance(it, int) else repr(it))
def test_a_passing_failure_is_retried_at_the_coordinator_of_that_time(problem: int | Exception) -> None:
    async def scenario() -> None:
        coordinators, leaders = Coordinators(problem, problem), iter([THERE, -1, THERE, HERE])
        async with client(coordinators, lambda _: next(leaders)) as states:
            await states.delete(KEY)
        assert [broker for broker, _ in coordinators.asked] == [THERE, THERE, HERE]

    run(scenario)


FINAL = (
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@pytest.mark.parametrize("code", FINAL, ids=name_of)
def test_a_refusal_of_the_coordinator_is_raised_without_a_retry(code: int) -> None:
    async def scenario() -> None:
        coordinators = Coordinators(code)
        async with client(coordinators, knows_topic=False) as states:
            assert (await refusal(states.delete(KEY))).code == code
        assert len(coordinators.asked) == 1

    run(scenario)


@pytest.mark.parametrize("leader", [-1, THERE])
def test_an_operation_ends_with_its_patience(leader: int) -> None:
    """Without a leader, and with a coordinator that always refuses."""

    async def scenario() -> None:
        coordinators = Coordinators(*[ErrorCode.NOT_COORDINATOR] * 1000)
        async with client(coordinators, lambda _: leader) as states:
            started = trio.current_time()
            assert (await refusal(states.delete(KEY))).code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert PATIENCE - 2 <= trio.current_time() - started <= PATIENCE
            assert len(coordinators.asked) < 50

    run(scenario)


def test_an_operation_behind_a_coordinator_that_does_not_answer_ends_with_its_patience() -> None:
    async def scenario() -> None:
        coordinators = Coordinators()
        coordinators.gate = trio.Event()
        async with client(coordinators) as states:
            started = trio.current_time()
            refused = await refusal(states.delete(KEY))
            assert (refused.code, trio.current_time() - started) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, PATIENCE)
        assert coordinators.timeouts == [share_state_client.ATTEMPT_SECONDS_MAX]

    run(scenario)


def test_operations_of_one_group_that_arrive_meanwhile_share_the_next_request() -> None:
    keys = [KEY, KEY._replace(partition=1), KEY._replace(topic_id=bytes(16)), KEY._replace(group_id="other")]

    async def scenario() -> None:
        coordinators = Coordinators()
        coordinators.gate = trio.Event()
        async with client(coordinators) as states, trio.open_nursery() as nursery:
            nursery.start_soon(states.delete, KEY)
            await trio.testing.wait_all_tasks_blocked()
            for key in [*keys, KEY]:
                nursery.start_soon(states.delete, key)
            await trio.testing.wait_all_tasks_blocked()
            assert len(coordinators.asked) == 2, "one in flight for each group"
            coordinators.gate.set()
        first, second, third, fourth = coordinators.sent()
        assert first == [KEY]
        assert second == [KEY._replace(group_id="other")]
        assert sorted(third) == sorted(keys[:3])
        assert fourth == [KEY], "the second operation on one share partition"

    run(scenario)


def test_a_request_ends_before_it_has_too_many_state_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_state_client, "BATCHES_A_REQUEST", 5)

    async def scenario() -> None:
        coordinators = Coordinators()
        coordinators.gate = trio.Event()
        async with client(coordinators) as states, trio.open_nursery() as nursery:
            for partition in range(5):
                batches = [StateBatch(offset, offset, 2, 1) for offset in range(7 if partition == 1 else 2)]
                nursery.start_soon(states.write, KEY._replace(partition=partition), 0, 0, 0, 0, batches)
                await trio.testing.wait_all_tasks_blocked()
            coordinators.gate.set()
        assert [[key.partition for key in each] for each in coordinators.sent()] == [[0], [1], [2, 3], [4]]

    run(scenario)


def test_an_operation_whose_caller_was_cancelled_is_not_sent() -> None:
    async def scenario() -> None:
        coordinators = Coordinators()
        coordinators.gate = trio.Event()
        async with client(coordinators) as states, trio.open_nursery() as nursery:
            nursery.start_soon(states.delete, KEY)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await states.delete(KEY._replace(partition=1))
            coordinators.gate.set()
        assert coordinators.sent() == [[KEY]]

    run(scenario)


def test_operations_beyond_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_state_client, "WAITING_MAX", 2)

    async def scenario() -> None:
        coordinators = Coordinators()
        coordinators.gate = trio.Event()
        async with client(coordinators) as states, trio.open_nursery() as nursery:
            for partition in range(2):
                nursery.start_soon(states.delete, KEY._replace(partition=partition))
            await trio.testing.wait_all_tasks_blocked()
            assert (await refusal(states.delete(KEY))).code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            coordinators.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            await states.delete(KEY)

    run(scenario)


def test_the_missing_topic_is_created_once_for_all_operations() -> None:
    creations: list[float] = []

    async def create() -> None:
        creations.append(trio.current_time())
        await trio.sleep(1)
        if len(creations) == 1:
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")

    async def scenario() -> None:
        coordinators = Coordinators()
        async with (
            client(coordinators, lambda _: HERE if len(creations) > 1 else None, create) as states,
            trio.open_nursery() as nursery,
        ):
            for partition in range(5):
                nursery.start_soon(states.delete, KEY._replace(partition=partition))
        assert len(creations) == 2
        assert sum(map(len, coordinators.sent())) == 5

    run(scenario)


def test_a_response_that_lacks_the_partition_is_no_success() -> None:
    class Forgetful(Coordinators):
        async def _answer(self, broker_id: int, request: Any) -> Any:
            response = await super()._answer(broker_id, request)
            if len(self.asked) == 1:
                response.results = []
            return response

    async def scenario() -> None:
        coordinators = Forgetful()
        async with client(coordinators) as states:
            await states.delete(KEY)
        assert len(coordinators.asked) == 2

    run(scenario)


def test_operations_that_wait_when_the_broker_stops_are_refused() -> None:
    async def scenario() -> None:
        coordinators, failures = Coordinators(), list[int]()
        coordinators.gate = trio.Event()

        async def ask(states: ShareStateClient) -> None:
            failures.append((await refusal(states.delete(KEY))).code)

        async with trio.open_nursery() as nursery:
            async with client(coordinators) as states:
                nursery.start_soon(ask, states)
                nursery.start_soon(ask, states)
                await trio.testing.wait_all_tasks_blocked()
        assert failures == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2

    run(scenario)
