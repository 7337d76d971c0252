"""kraft/replication/unclean/loss_reporter.py"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import trio

from kraft.common.config.dynamic.loss_reports import Loss, UnreportedLoss, election_key, loss_key, parse_loss, text_of
from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.replication.fetchers.following import Truncation
from kraft.replication.unclean.loss_reporter import LossReporter
from kraft.world.simulated import Universe

ID = b"t" * 16
ELECTED_IN = 5


class Controller:
    """Takes what it is sent; `refusals` are codes that it answers with first, `silent` how many requests it does not
    answer at all. `faults` are raised before anything."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Loss | None]] = []
        self.refusals: list[int] = []
        self.silent = 0
        self.faults: list[Exception] = []

    async def send(self, request: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if self.faults:
            raise self.faults.pop()
        self.sent.append(
            {config.name: parse_loss(config.value) for resource in request.resources for config in resource.configs}
        )
        if self.silent:
            self.silent -= 1
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "nobody answers")
        code = self.refusals.pop(0) if self.refusals else 0
        return SimpleNamespace(
            responses=[
                SimpleNamespace(resource_name=resource.resource_name, error_code=code) for resource in request.resources
            ]
        )


class Files:
    """What `UnreportedLossFiles` is to the teller, of cuts that are made as soon as they are noted."""

    def __init__(self) -> None:
        self.cuts: list[UnreportedLoss] = []

    def read(self) -> list[tuple[str, UnreportedLoss]]:
        return [("/data", cut) for cut in self.cuts]

    def directory_of(self, partition: Any) -> str:
        return "/data"

    def has_happened(self, cut: UnreportedLoss) -> bool:
        return True

    def write_now(self, directory: str, cuts: list[UnreportedLoss]) -> None:
        self.cuts = cuts

    async def write(self, directory: str, cuts: list[UnreportedLoss]) -> bool:
        await trio.lowlevel.checkpoint()
        self.cuts = cuts
        return True


class Replica:
    """Replica 1 of `t`-0, which broker 2 leads since an unclean election in epoch 5."""

    def __init__(self, universe: Universe) -> None:
        self.world = universe.world_for("b")
        self.controller = Controller()
        self.image = MetadataImage()
        self.replay(
            TopicRecord(name="t", topic_id=ID),
            PartitionRecord(partition_id=0, topic_id=ID, replicas=[1, 2], isr=[2], leader=2, leader_epoch=6),
        )
        self.note(election_key(0, ELECTED_IN), text_of({"leader": 2, "replicas": [1, 2]}))
        log: Any = SimpleNamespace(info=lambda *_, **__: None)
        self.files = Files()
        self.set_aside = Quarantine(self.world.clock, lambda event: None)
        clock = self.world.clock
        self.teller = LossReporter(1, lambda: self.image, self.controller, self.files, clock, self.set_aside, log)  # type: ignore[arg-type]

    def replay(self, *records: Any) -> None:
        self.image, _ = self.image.replay_batch(records)

    def note(self, name: str, value: str) -> None:
        self.replay(ConfigRecord(resource_type=2, resource_name="t", name=name, value=value))

    def cut(self, start: int, end: int, *, first_epoch: int = 4, leader_epoch: int = 6) -> None:
        partition: Any = SimpleNamespace(topic="t", topic_id=ID, index=0, leader_epoch=leader_epoch)
        self.teller.truncating(partition, Truncation(start, end, start + 1, first_epoch))


def play(script: Callable[[Replica], Any]) -> list[list[tuple[int, int]]]:
    """The ranges of each request that the controller was sent, while the script ran and for ten seconds after; what
    the script returns runs meanwhile."""
    universe = Universe(1)
    told: list[list[tuple[int, int]]] = []

    async def main(_: Universe) -> None:
        replica = Replica(universe)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replica.teller.run)
            later = script(replica)
            if later is not None:
                nursery.start_soon(later)
            await replica.world.clock.sleep(10)
            nursery.cancel_scope.cancel()
        assert replica.files.cuts == []
        assert all(list(request) == [loss_key(0, ELECTED_IN, 1)] for request in replica.controller.sent)
        told.extend(
            [(loss.start_offset, loss.end_offset) for loss in request.values() if loss is not None]
            for request in replica.controller.sent
        )

    universe.run(main)
    return told


def test_records_lost_by_an_unclean_election_are_reported() -> None:
    assert play(lambda replica: replica.cut(10, 20)) == [[(10, 20)]]


def test_an_ordinary_truncation_is_not_reported_as_a_loss() -> None:
    def script(replica: Replica) -> None:
        replica.cut(10, 20, first_epoch=5)
        replica.cut(10, 20, first_epoch=3, leader_epoch=4)

    assert play(script) == []


def test_successive_truncations_are_reported_as_one_range() -> None:
    def script(replica: Replica) -> None:
        replica.note(loss_key(0, ELECTED_IN, 1), text_of(Loss(30, 40, 30, 6, 1)))
        replica.cut(20, 30)
        replica.cut(10, 20)

    assert play(script) == [[(10, 40)]]


def test_a_loss_report_is_repeated_until_a_controller_acknowledges_it() -> None:
    def script(replica: Replica) -> None:
        replica.controller.silent = 1
        replica.controller.refusals = [ErrorCode.NOT_CONTROLLER]
        replica.cut(10, 20)

    assert play(script) == [[(10, 20)]] * 3


def test_a_loss_report_that_was_dismissed_is_not_repeated() -> None:
    def script(replica: Replica) -> None:
        replica.controller.refusals = [ErrorCode.INVALID_CONFIG]
        replica.cut(10, 20)

    assert play(script) == [[(10, 20)]]


def test_a_loss_report_waits_for_the_metadata_of_its_election() -> None:
    def script(replica: Replica) -> Callable[[], Awaitable[None]]:
        shown, replica.image = replica.image, MetadataImage()
        replica.replay(
            TopicRecord(name="t", topic_id=ID),
            PartitionRecord(partition_id=0, topic_id=ID, replicas=[1, 2], isr=[1], leader=1, leader_epoch=4),
        )
        replica.cut(10, 20)

        async def show() -> None:
            await replica.world.clock.sleep(3)
            replica.image = shown

        return show

    assert play(script) == [[(10, 20)]]


def test_an_unexpected_exception_does_not_end_the_loss_reporter() -> None:
    teller: list[Replica] = []

    def script(replica: Replica) -> None:
        teller.append(replica)
        replica.controller.faults = [AssertionError("an answer that nobody foresaw")]
        replica.cut(10, 20)

    assert play(script) == [[(10, 20)]]
    assert teller[0].set_aside.failures == {"losses of unclean elections": 1}
    assert teller[0].set_aside.items() == []
