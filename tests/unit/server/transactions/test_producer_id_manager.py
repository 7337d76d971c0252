"""Producer ids come from the controller's blocks: each once, the next block fetched in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from kraft.common.errors import ApiError, KraftError, ProtocolError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kraft.server.transactions.producer_id_manager import ProducerIdManager
from tests.unit.server.brokers import ScriptedController


class Blocks(ScriptedController):
    """Hands out blocks of 1000 from 5000 on, or fails with `failure`."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: KraftError | None = None
        self.answers[AllocateProducerIdsRequest.API_KEY] = self._block

    def _block(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        if self.failure is not None:
            raise self.failure
        return AllocateProducerIdsResponse(producer_id_start=4000 + 1000 * len(self.asked), producer_id_len=1000)


def play(scene: Callable[[ProducerIdManager, Blocks], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            blocks = Blocks()
            await scene(ProducerIdManager(1, lambda: 7, blocks, nursery), blocks)

    trio.run(main)


def test_producer_ids_continue_from_block_to_block() -> None:
    async def scene(ids: ProducerIdManager, blocks: Blocks) -> None:
        assert [await ids.next() for _ in range(2500)] == list(range(5000, 7500))
        assert blocks.asked[0] == AllocateProducerIdsRequest(broker_id=1, broker_epoch=7)

    play(scene)


def test_the_next_producer_id_block_is_fetched_before_the_current_one_is_used_up() -> None:
    async def scene(ids: ProducerIdManager, blocks: Blocks) -> None:
        for _ in range(899):
            await ids.next()
        assert len(blocks.asked) == 1
        for _ in range(5):
            await ids.next()
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert len(blocks.asked) == 2

    play(scene)


def test_concurrent_requests_share_one_block_request_and_get_distinct_ids() -> None:
    async def scene(ids: ProducerIdManager, blocks: Blocks) -> None:
        taken: list[int] = []

        async def take() -> None:
            taken.append(await ids.next())

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(take)
        assert sorted(taken) == list(range(5000, 5100))
        assert len(blocks.asked) == 1

    play(scene)


@pytest.mark.parametrize(
    "failure", [ApiError(ErrorCode.REQUEST_TIMED_OUT), ProtocolError("an answer that cannot be read")]
)
def test_without_a_producer_id_block_the_client_gets_a_retriable_error(failure: KraftError) -> None:
    async def scene(ids: ProducerIdManager, blocks: Blocks) -> None:
        blocks.failure = failure
        with pytest.raises(ApiError) as caught:
            await ids.next()
        assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        blocks.failure = None
        for _ in range(890):
            await ids.next()
        # The next block cannot be fetched ahead: whoever has an id to take is not hurt by that.
        blocks.failure = failure
        for _ in range(110):
            await ids.next()
            await trio.lowlevel.checkpoint()
        blocks.failure = None
        assert await ids.next() == 4000 + 1000 * len(blocks.asked)

    play(scene)
