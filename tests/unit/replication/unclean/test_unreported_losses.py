"""Losses that no controller has heard of: which count (unreported_losses.py), and that no crash drops or invents one
(unreported_loss_files.py, loss_teller.py)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
import trio

from kraft.common.config.dynamic.loss_reports import Loss, UnreportedLoss, election_key, loss_key, parse_loss, text_of
from kraft.common.ids import Uuid
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kraft.replication.fetchers.following import Truncation
from kraft.replication.fetchers.replica_fetcher import ReplicaFetcher
from kraft.replication.unclean import unreported_losses
from kraft.replication.unclean.unreported_loss_files import UnreportedLossCheckpoint, UnreportedLossFiles
from kraft.replication.unclean.unreported_losses import UnreportedLosses
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.replication.followers import LEADER, ScriptedLeader, record
from tests.unit.server.brokers import NODE, UNASSIGNED, Broker

TOPIC_ID = Uuid(b"t" * 16)
ELECTED_IN = 5
KEY = loss_key(0, ELECTED_IN, NODE)


def image_of(*changes: Any, leader_epoch: int = 6) -> MetadataImage:
    """`t`-0, which broker 2 leads since an unclean election in epoch 5; then `changes`."""
    image, _ = MetadataImage().replay_batch([*topic_records(leader_epoch=leader_epoch), *changes])
    return image


def topic_records(leader_epoch: int = 6) -> list[Any]:
    place = {"directories": [UNASSIGNED] * 3, "partition_epoch": 0}
    return [
        TopicRecord(name="t", topic_id=TOPIC_ID),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=[NODE, 2, 3],
            isr=[2],
            leader=LEADER,
            leader_epoch=leader_epoch,
            **place,
        ),
        election(ELECTED_IN),
    ]


def election(epoch: int) -> ConfigRecord:
    value = text_of({"leader": LEADER, "replicas": [NODE, 2, 3]})
    return ConfigRecord(resource_type=2, resource_name="t", name=election_key(0, epoch), value=value)


def cut(
    start: int, end: int, *, first_epoch: int = 4, leader_epoch: int = 6, topic_id: bytes = TOPIC_ID
) -> UnreportedLoss:
    return UnreportedLoss("t", topic_id, 0, first_epoch, Loss(start, end, start, leader_epoch, 1))


def noted(*cuts: UnreportedLoss, image: MetadataImage | None = None, made: bool = True) -> UnreportedLosses:
    found = UnreportedLosses(NODE)
    for each in cuts:
        found.note("/data", each)
    found.look(image or image_of(), lambda _: made)
    return found


def ranges(cuts: UnreportedLosses) -> list[tuple[int, int]]:
    return [(each.loss.start_offset, each.loss.end_offset) for each in cuts.of("/data")]


def test_only_losses_that_fit_the_election_in_the_metadata_or_a_newer_one_are_counted() -> None:
    cuts = UnreportedLosses(NODE)
    assert cuts.may_count(image_of(), cut(10, 20))
    assert not cuts.may_count(image_of(), cut(10, 20, first_epoch=5)), "written after the election"
    assert not cuts.may_count(image_of(leader_epoch=4), cut(10, 20, first_epoch=3, leader_epoch=4)), (
        "cut before the election"
    )
    assert cuts.may_count(image_of(leader_epoch=4), cut(10, 20, leader_epoch=5)), (
        "the election may be what the image does not show yet"
    )
    assert not cuts.may_count(image_of(), cut(10, 20, topic_id=b"o" * 16)), "a topic of that name which was deleted"
    assert not UnreportedLosses(LEADER).may_count(image_of(), cut(10, 20)), "who was elected lost nothing by it"


def test_adjacent_truncations_merge_and_separate_ones_do_not() -> None:
    cuts = noted(cut(20, 30), cut(10, 20), cut(5, 10, first_epoch=3), cut(40, 50, leader_epoch=8))
    assert ranges(cuts) == [(10, 30), (5, 10), (40, 50)]
    assert {key: loss[:2] for key, loss in cuts.telling(image_of(leader_epoch=8)).losses["t"].items()} == {KEY: (5, 50)}


def test_a_pending_truncation_is_not_reported_and_a_later_one_survives_the_report() -> None:
    cuts = noted(cut(20, 30), made=False)
    assert not cuts.telling(image_of()).told
    cuts.look(image_of(), lambda _: True)
    telling = cuts.telling(image_of())
    cuts.note("/data", cut(10, 20))
    cuts.forget(telling.told)
    assert ranges(cuts) == [(10, 30)]


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ([], True),
        ([PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=3)], True),
        ([PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[2, NODE])], True),
        ([PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=NODE, isr=[NODE])], False),
        ([PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=3, isr=[3, NODE])], False),
        ([PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[2, 3], isr=[2])], False),
        ([RemoveTopicRecord(topic_id=TOPIC_ID)], False),
    ],
)
def test_a_noted_truncation_that_is_no_longer_needed_is_forgotten(change: list[Any], stays: bool) -> None:
    cuts, image = noted(cut(10, 20), made=False), image_of(*change)
    assert [entry.loss for entry in cuts.look(image, lambda _: False)] == ([] if stays else [cut(10, 20)])
    assert bool(cuts) is stays


def test_a_loss_whose_report_was_dismissed_or_whose_topic_was_deleted_is_dropped() -> None:
    dismissed = ConfigRecord(resource_type=2, resource_name="t", name=election_key(0, ELECTED_IN), value=None)
    for image in (image_of(dismissed), image_of(RemoveTopicRecord(topic_id=TOPIC_ID))):
        telling = noted(cut(10, 20)).telling(image)
        assert ([entry.loss for entry in telling.dropped], telling.told, telling.losses) == ([cut(10, 20)], [], {})


def test_the_oldest_loss_beyond_the_limit_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreported_losses, "UNTOLD_MAX", 2)
    assert ranges(noted(*(cut(at, at + 1, leader_epoch=at) for at in (6, 7, 8)))) == [(7, 8), (8, 9)]


# Crashes.


class Controller:
    """Keeps what it is told, for as long as the test lives."""

    def __init__(self) -> None:
        self.loss: Loss | None = None
        self.told = 0
        self.refuses = 0

    def alter(self, request: Any) -> Any:
        (config,) = request.resources[0].configs
        loss = parse_loss(config.value)
        assert config.name == KEY
        assert loss is not None
        self.told += 1
        if not self.refuses:
            self.loss = loss
        return IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse(error_code=self.refuses, resource_type=2, resource_name="t")]
        )


class Life:
    """One run of a broker that follows `t`-0: offsets 0 to 2 are of epoch 0, 3 to 5 of epoch 4; the leader's epoch 0
    ends at 3."""

    def __init__(self, made: Broker, controller: Controller) -> None:
        self.made, self.controller = made, controller
        made.controller.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = controller.alter
        self.losses = made.server.replication.losses
        known = (
            []
            if controller.loss is None
            else [ConfigRecord(resource_type=2, resource_name="t", name=KEY, value=text_of(controller.loss))]
        )
        made.publish(made.register(), made.register(2), made.register(3), *topic_records(), *known)
        self.partition = made.partition("t")
        settings = made.server.replication.fetchers.settings
        self.fetcher = ReplicaFetcher(LEADER, made.replicas, settings, made.server.services.loggers.get("fetcher"))

    async def write(self) -> None:
        """Durably."""
        for offset, epoch in enumerate((0, 0, 0, 4, 4, 4)):
            self.partition.log.append_as_follower(record(offset, epoch), now_ms=self.made.world.clock.wall_ms())
        await self.made.replicas.flush(self.partition)

    async def follow(self) -> None:
        """The leader says where it parts, if it does, then sends its own record; the teller has ten seconds to tell."""
        self.fetcher.follow(self.partition)
        if self.partition.log.leader_epoch_cache.latest_epoch == 4:
            await self.fetch(diverging_epoch=EpochEndOffset(epoch=0, end_offset=3))
        await self.made.world.clock.sleep(10)

    async def fetch(self, **fields: Any) -> None:
        leader = ScriptedLeader()
        data = PartitionData(partition_index=0, **fields)
        leader.answers.append(
            FetchResponse(session_id=9, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])
        )
        assert await self.fetcher._fetch(leader)  # type: ignore[arg-type]

    @property
    def file(self) -> list[UnreportedLoss]:
        return UnreportedLossCheckpoint(self.made.world.files, "/data").read()


def live(universe: Universe, controller: Controller, script: Callable[[Life], Any]) -> bool:
    """Whether the broker lived to the end of the script."""

    async def main(_: Universe) -> bool:
        world = universe.world_for("broker")

        async def body(_: Any) -> None:
            async with trio.open_nursery() as nursery:
                made = Broker(world, nursery)
                made.start()
                life = Life(made, controller)
                life.losses.recall()
                nursery.start_soon(made.replicas.flusher.run)
                nursery.start_soon(life.losses.run)
                await script(life)
                nursery.cancel_scope.cancel()
            made.logs.release()

        return await universe.live(world, body)

    return universe.run(main, seconds_max=100.0)


async def _first(life: Life) -> None:
    await life.write()


async def _until_all_is_told(life: Life) -> None:
    await life.follow()
    assert life.partition.log.log_end_offset == 3
    assert life.file == []


@pytest.mark.parametrize("power_lost", [False, True])
def test_after_a_crash_at_any_step_the_next_run_reports_exactly_the_truncated_records(power_lost: bool) -> None:
    told, count, lived = [], 0, False
    while not lived:
        universe, controller = Universe(count), Controller()
        assert live(universe, controller, _first)
        universe.power_off("broker")

        async def dying(life: Life, count: int = count, universe: Universe = universe) -> None:
            universe.kill_after_calls("broker", count, power_lost=power_lost)
            await _until_all_is_told(life)

        lived = live(universe, controller, dying)
        if lived:
            universe.kill("broker")
        heard = controller.told
        assert live(universe, controller, _until_all_is_told), count
        assert controller.loss is not None, count
        assert controller.loss[:2] == (3, 6), count
        told.append((heard, controller.told - heard))
        count += 1
    assert told[0] == (0, 1)
    assert (1, 1) in told, "it was heard, and the file told of it yet"
    assert told[-1] == (1, 0), "what was told is not told again"


def test_a_truncation_noted_but_not_done_is_done_after_a_restart_and_counted_once() -> None:
    universe, controller = Universe(1), Controller()

    async def noting(life: Life) -> None:
        await life.write()
        universe.kill_after_calls("broker", 10_000)
        life.losses.truncating(life.partition, _truncation(life))
        assert [each.loss[:2] for each in life.file] == [(3, 6)]
        universe.kill("broker")
        await life.made.world.clock.sleep(1)

    async def returning(life: Life) -> None:
        await life.made.world.clock.sleep(10)
        assert not controller.told, "it has not been cut"
        await _until_all_is_told(life)

    assert not live(universe, controller, noting)
    assert live(universe, controller, returning)
    assert controller.told == 1
    assert controller.loss is not None
    assert controller.loss[:2] == (3, 6)


def test_a_noted_truncation_before_leading_is_no_loss() -> None:
    universe, controller = Universe(1), Controller()

    async def noting(life: Life) -> None:
        await life.write()
        life.losses.truncating(life.partition, _truncation(life))
        universe.kill("broker")
        await life.made.world.clock.sleep(1)

    async def leading(life: Life) -> None:
        life.made.change(TOPIC_ID, leader=NODE, isr=[NODE])
        await life.made.world.clock.sleep(10)
        assert life.file == []

    assert not live(universe, controller, noting)
    assert live(universe, controller, leading)
    assert not controller.told


def test_an_ordinary_cut_writes_no_file() -> None:
    async def script(life: Life) -> None:
        await life.write()
        life.made.publish(
            ConfigRecord(resource_type=2, resource_name="t", name=election_key(0, ELECTED_IN), value=None)
        )
        await _until_all_is_told(life)
        assert not life.made.world.files.exists("/data/untold-cuts-checkpoint")

    assert live(Universe(1), Controller(), script)


def test_a_permanent_refusal_removes_the_loss_from_the_file_and_a_retriable_one_keeps_it() -> None:
    for code, told, left in ((ErrorCode.INVALID_CONFIG, 1, 0), (ErrorCode.NOT_CONTROLLER, 10, 1)):
        universe, controller = Universe(1), Controller()
        controller.refuses = code

        async def script(life: Life, left: int = left) -> None:
            await life.write()
            await life.follow()
            assert len(life.file) == left

        assert live(universe, controller, script)
        assert min(controller.told, 10) == told


def test_a_damaged_loss_file_is_logged_and_reports_nothing() -> None:
    universe, controller = Universe(1), Controller()

    async def damaging(life: Life) -> None:
        await life.write()
        life.losses.truncating(life.partition, _truncation(life))
        file = life.made.world.files.open("/data/untold-cuts-checkpoint")
        file.pwrite(b"7", 0)
        file.close()
        universe.kill("broker")
        await life.made.world.clock.sleep(1)

    async def returning(life: Life) -> None:
        assert any(event["event"] == "unreported losses of the last run cannot be read" for event in life.made.events)
        await _until_all_is_told(life)

    assert not live(universe, controller, damaging)
    assert live(universe, controller, returning)
    assert controller.told == 1


@pytest.mark.parametrize(("error", "is_online"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_a_log_is_not_truncated_when_its_loss_cannot_be_written_to_disk(error: int, is_online: bool) -> None:
    universe, controller = Universe(1), Controller()

    async def failing(life: Life) -> None:
        await life.write()
        log = life.partition.log
        universe.disk("broker").faults = [Fault("append", error, "untold-cuts")]
        await life.follow()
        assert log.log_end_offset == 6
        assert not controller.told
        assert bool(life.made.logs.online()) is is_online
        assert not UnreportedLossFiles(life.made.replicas, life.made.server.log).has_happened(cut(3, 6)), (
            "what an offline disk has is not known"
        )
        if is_online:
            await _until_all_is_told(life)

    assert live(universe, controller, failing)
    assert controller.told == is_online


def _truncation(life: Life) -> Any:
    log = life.partition.log
    return Truncation(3, log.log_end_offset, log.high_watermark, 4)
