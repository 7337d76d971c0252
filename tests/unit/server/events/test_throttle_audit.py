"""Waits for quotas are told and counted, within bounds."""

from __future__ import annotations

from typing import Any

from kraft.common.logging import Loggers
from kraft.metadata.quota_keys import CONNECTION_CREATION_RATE, CONTROLLER_MUTATION_RATE, PRODUCER_BYTE_RATE
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.quota.throttle import Throttle
from kraft.rpc_client.connection import Disconnected, connect
from kraft.server.events.event_journal import EventJournal, EventKind
from kraft.server.events.login_audit import CHARACTERS_MAX, PERIOD_SECONDS, TOLD_MAX
from kraft.server.events.throttle_audit import CLIENTS_MAX, QUIET_SECONDS, ThrottleAudit
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import HOST, PORT, Running, configuration, running


class Audited:
    def __init__(self, universe: Universe) -> None:
        world = universe.world_for(1)
        self.clock = world.clock
        self.lines: list[Any] = []
        self.events = EventJournal(world.clock)
        self.audit = ThrottleAudit(self.events, Loggers(self.lines.append, world.clock).get("quotas"), world.clock)

    def throttle(self, client_id: str = "c", quota: str = PRODUCER_BYTE_RATE) -> None:
        self.audit.take(Throttle(quota, "CLIENTS", "10.0.0.1", 0.5, "User:alice", client_id))

    def told(self) -> list[dict[str, Any]]:
        return [dict(event.fields) for event in self.events.since().events]


def test_throttling_is_an_event_a_log_line_and_a_count() -> None:
    async def main(universe: Universe) -> None:
        audited = Audited(universe)
        audited.throttle()
        [event] = audited.events.since().events
        assert event.kind == EventKind.CLIENT_THROTTLED
        assert event.fields == {
            "listener": "CLIENTS",
            "quota": "producer_byte_rate",
            "principal": "User:alice",
            "host": "10.0.0.1",
            "client_id": "c",
            "wait_ms": 500,
            "waits": 1,
            "untold": 0,
        }
        assert len(audited.lines) == 1
        assert list(audited.audit.waits()) == [(("CLIENTS", PRODUCER_BYTE_RATE), 1)]
        assert list(audited.audit.seconds()) == [(("CLIENTS", PRODUCER_BYTE_RATE), 0.5)]

    Universe(1).run(main)


def test_a_producer_throttled_many_times_is_reported_once_per_interval() -> None:
    async def main(universe: Universe) -> None:
        audited = Audited(universe)
        for _ in range(1000):
            audited.throttle()
        assert [each["waits"] for each in audited.told()] == [1]
        assert list(audited.audit.waits()) == [(("CLIENTS", PRODUCER_BYTE_RATE), 1000)]
        audited.throttle(quota=CONTROLLER_MUTATION_RATE)
        assert len(audited.told()) == len(audited.lines) == 2
        await audited.clock.sleep(QUIET_SECONDS)
        audited.throttle()
        assert [each["waits"] for each in audited.told()] == [1, 1, 1000]
        audited.throttle()
        assert len(audited.told()) == 3

    Universe(1).run(main)


def test_many_throttled_clients_fill_neither_log_nor_journal_nor_memory() -> None:
    async def main(universe: Universe) -> None:
        audited = Audited(universe)
        count = 2 * CLIENTS_MAX
        for number in range(count):
            audited.throttle(f"{number}" + "x" * 1_000_000)
        told = audited.told()
        assert len(told) == len(audited.lines) == TOLD_MAX
        assert {len(each["client_id"]) for each in told} == {CHARACTERS_MAX}
        assert list(audited.audit.waits()) == [(("CLIENTS", PRODUCER_BYTE_RATE), count)]
        await audited.clock.sleep(PERIOD_SECONDS)
        audited.throttle("another")
        assert audited.told()[-1]["untold"] == count - TOLD_MAX
        for number in range(count):
            await audited.clock.sleep(PERIOD_SECONDS)
            audited.throttle(f"later-{number}")
        assert len(audited.audit._told) == CLIENTS_MAX

    Universe(1).run(main)


async def limit(run: Running, key: str, value: float, kind: str, name: str) -> None:
    entries = [EntryData(entity=[EntityData(entity_type=kind, entity_name=name)], ops=[OpData(key=key, value=value)])]
    answer = await run.client.call(AlterClientQuotasRequest(entries=entries))
    assert [each.error_code for each in answer.entries] == [0]


def throttles(run: Running) -> list[dict[str, Any]]:
    events = run.node.events.since().events
    return [dict(event.fields) for event in events if event.kind == EventKind.CLIENT_THROTTLED]


def test_a_client_throttled_for_creating_topics_is_reported_by_the_controller() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await limit(run, CONTROLLER_MUTATION_RATE, 0.1, "user", "ANONYMOUS")
            await universe.sleep(1)
            for name in ("one", "two"):
                topics = [CreatableTopic(name=name, num_partitions=5, replication_factor=1)]
                answer = await run.client.call(CreateTopicsRequest(topics=topics, timeout_ms=1000))
            [told] = throttles(run)
            assert told["wait_ms"] == answer.throttle_time_ms > 0
            assert (told["quota"], told["principal"]) == (CONTROLLER_MUTATION_RATE, "User:ANONYMOUS")
            assert run.node.controller is not None
            [(place, seconds)] = run.node.controller.audit.throttles.seconds()
            assert place == (told["listener"], CONTROLLER_MUTATION_RATE)
            assert round(seconds * 1000) == told["wait_ms"]

    simulate(play)


def test_an_address_throttled_for_its_connection_rate_is_reported() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration("quota.window.num=2", "quota.window.size.seconds=1")) as run:
            host = next(iter(run.node.broker.socket_servers["PLAINTEXT"].connections.values())).peer.host
            await limit(run, CONNECTION_CREATION_RATE, 1, "ip", host)
            await universe.sleep(1)
            for _ in range(4):
                try:
                    async with connect(universe.world_for("client"), HOST, PORT):
                        pass
                except Disconnected:
                    continue
            told = throttles(run)
            assert told
            assert (told[0]["quota"], told[0]["listener"], told[0]["host"]) == (
                CONNECTION_CREATION_RATE,
                "PLAINTEXT",
                host,
            )
            assert (told[0]["principal"], told[0]["client_id"]) == ("", "")

    simulate(play)
