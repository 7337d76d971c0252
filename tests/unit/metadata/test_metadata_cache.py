"""Which brokers clients are told of."""

from __future__ import annotations

from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.metadata_cache import LATELY_SECONDS, MetadataCache
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.world.ports import Clock
from kraft.world.real import RealWorld
from kraft.world.real.clock import RealClock


class HandClock(RealClock):
    """A clock whose time is set by the test."""

    seconds = 100.0

    def now(self) -> float:
        return self.seconds


def cache_of(*brokers: int, clock: Clock | None = None) -> MetadataCache:
    """A cache whose brokers are live, each with a listener of its own port."""
    cache = MetadataCache(clock or RealWorld(log_sink=lambda event: None).clock, MetadataImage())
    for broker in brokers:
        endpoint = BrokerEndpoint(security_protocol=0, name="PLAINTEXT", host="here", port=9000 + broker)
        replay(cache, RegisterBrokerRecord(broker_id=broker, broker_epoch=1, fenced=False, end_points=[endpoint]))
    return cache


def replay(cache: MetadataCache, record: object) -> None:
    cache.set(cache.image.replay_batch([record])[0], cache.offset + 1, 1)


def say_goodbye(cache: MetadataCache, broker: int) -> None:
    """What a controlled shutdown writes: the broker leaves, then it is fenced."""
    for change in ({"in_controlled_shutdown": 1}, {"fenced": 1}):
        replay(cache, BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=1, **change))


def listed(cache: MetadataCache) -> list[int]:
    return [node.id for node in cache.listed_brokers("PLAINTEXT")]


def test_a_dead_broker_stays_listed_for_nine_seconds() -> None:
    clock = HandClock()
    cache = cache_of(1, 2, clock=clock)
    replay(cache, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1))
    assert [node.id for node in cache.live_brokers("PLAINTEXT")] == [2]
    assert listed(cache) == [1, 2]
    clock.seconds += LATELY_SECONDS - 0.1
    assert listed(cache) == [1, 2]
    clock.seconds += 0.1
    assert listed(cache) == [2]


def test_a_broker_that_shut_down_cleanly_is_not_listed() -> None:
    cache = cache_of(1, 2)
    say_goodbye(cache, 1)
    assert listed(cache) == [2]


def test_the_broker_list_for_clients_is_never_empty() -> None:
    cache = cache_of(1)
    say_goodbye(cache, 1)
    assert listed(cache) == [1]
    assert cache.live_brokers("PLAINTEXT") == ()
    assert cache.listed_brokers("ELSEWHERE") == ()
    cluster = cache_of(1, 2, 3)
    for broker in (3, 1, 2):
        say_goodbye(cluster, broker)
    assert listed(cluster) == [1, 2, 3]
