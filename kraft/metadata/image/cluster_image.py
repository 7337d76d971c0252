"""Registered brokers and controllers (KIP-631, KIP-858 directories, KIP-919 controller registration).

A broker's epoch is the log offset at which its registration was decided. A record that names another epoch belongs to a
former incarnation and must never be replayed onto this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.partition_registration import directory_is_online
from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.fence_broker_record import FenceBrokerRecord
from kraft.metadata.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kraft.metadata.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from kraft.metadata.records.unfence_broker_record import UnfenceBrokerRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from kraft.metadata.records.unregister_controller_record import UnregisterControllerRecord


class Endpoint(NamedTuple):
    """A listener of a node. `security_protocol` is Kafka's id: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    """The levels of a feature that a node supports, both inclusive."""

    min_level: int
    max_level: int

    def __str__(self) -> str:
        return f"{self.min_level}-{self.max_level}" if self.min_level != self.max_level else str(self.min_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker. `directories` are its online log directories, ascending. `cordoned_directories` is None until the
    broker has reported them."""

    id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...] = ()
    features: OrderedMap[str, FeatureRange] = field(default_factory=OrderedMap)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead and join in-sync replica sets."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def has_uncordoned_directories(self) -> bool:
        cordoned = self.cordoned_directories
        return not self.directories or not cordoned or any(directory not in cordoned for directory in self.directories)

    def has_online_directory(self, directory: bytes) -> bool:
        return directory_is_online(directory, self.directories)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)

    def to_record(self, options: WriterOptions) -> RegisterBrokerRecord:
        """Return the record that creates this registration, without the fields that the level does not know."""
        is_migrating, directories, cordoned = self.is_migrating_zk_broker, self.directories, self.cordoned_directories
        if is_migrating and not options.metadata_version.serves_zk_migration:
            options.handle_loss("the isMigratingZkBroker state of one or more brokers")
            is_migrating = False
        if directories and not options.metadata_version.assigns_directories:
            options.handle_loss("the online log directories of one or more brokers")
            directories = ()
        if cordoned is not None and not options.metadata_version.serves_cordons:
            options.handle_loss("the cordoned log directories of one or more brokers")
            cordoned = None
        return RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=is_migrating,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.endpoints
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=r.min_level, max_supported_version=r.max_level)
                for name, r in self.features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(directories),
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """One controller's endpoints and features, as in its own registration."""

    id: int
    incarnation_id: bytes
    zk_migration_ready: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    features: OrderedMap[str, FeatureRange] = field(default_factory=OrderedMap)

    def to_record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.endpoints
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=r.min_level, max_supported_version=r.max_level)
                for name, r in self.features.items()
            ],
        )


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The registered nodes of the cluster."""

    brokers: OrderedMap[int, BrokerRegistration] = field(default_factory=OrderedMap)
    controllers: OrderedMap[int, ControllerRegistration] = field(default_factory=OrderedMap)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def write(self, options: WriterOptions) -> Iterator[Any]:
        """Return the records, without controllers below 3.7-IV0."""
        for broker in self.brokers.values():
            yield broker.to_record(options)
        if not options.metadata_version.registers_controllers:
            if self.controllers:
                options.handle_loss("controller registration data")
            return
        for controller in self.controllers.values():
            yield controller.to_record()


class ClusterDraft:
    """A cluster image while records are replayed onto it."""

    __slots__ = ("_base", "_brokers", "_controllers", "changed_brokers", "changed_controllers")

    def __init__(self, base: ClusterImage) -> None:
        self._base = base
        self._brokers = base.brokers.mutate()
        self._controllers = base.controllers.mutate()
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}
        self.changed_controllers: dict[int, ControllerRegistration | None] = {}

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        self._touch(record.broker_id)
        self._brokers[record.broker_id] = BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=OrderedMap(
                {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in record.features}
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=tuple(sorted(record.log_dirs)),
            cordoned_directories=None if record.cordoned_log_dirs is None else tuple(sorted(record.cordoned_log_dirs)),
        )

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._expect(record.broker_id, record.broker_epoch)
        self._touch(record.broker_id)
        del self._brokers[record.broker_id]

    def fence_broker(self, record: FenceBrokerRecord) -> None:
        self._put(replace(self._expect(record.id, record.epoch), fenced=True))

    def unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._put(replace(self._expect(record.id, record.epoch), fenced=False))

    def change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        """Replay a change. Fenced: 1 fences, -1 unfences, 0 means no change. InControlledShutdown: 1 enters. Empty
        LogDirs and null CordonedLogDirs mean no change."""
        broker = self._expect(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise ValueError(
                f"a change of broker {record.broker_id} has fenced={record.fenced}, "
                f"in_controlled_shutdown={record.in_controlled_shutdown}"
            )
        self._put(
            replace(
                broker,
                fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
                in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
                directories=tuple(sorted(record.log_dirs)) if record.log_dirs else broker.directories,
                cordoned_directories=broker.cordoned_directories
                if record.cordoned_log_dirs is None
                else tuple(sorted(record.cordoned_log_dirs)),
            )
        )

    def register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers.setdefault(record.controller_id, self._base.controllers.get(record.controller_id))
        self._controllers[record.controller_id] = ControllerRegistration(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=OrderedMap(
                {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in record.features}
            ),
        )

    def unregister_controller(self, record: UnregisterControllerRecord) -> None:
        """Remove a controller. Raises ValueError if it is not registered."""
        if record.controller_id not in self._controllers:
            raise ValueError(f"a record names controller {record.controller_id}, which is not registered")
        self.changed_controllers.setdefault(record.controller_id, self._base.controllers.get(record.controller_id))
        del self._controllers[record.controller_id]

    def finish(self) -> ClusterImage:
        return ClusterImage(OrderedMap(self._brokers.finish()), OrderedMap(self._controllers.finish()))

    def _expect(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise ValueError(f"a record names broker {broker_id}, which is not registered")
        if broker.epoch != epoch:
            raise ValueError(
                f"a record names epoch {epoch} of broker {broker_id}, which is registered with epoch {broker.epoch}"
            )
        return broker

    def _touch(self, broker_id: int) -> None:
        self.changed_brokers.setdefault(broker_id, self._base.brokers.get(broker_id))

    def _put(self, broker: BrokerRegistration) -> None:
        self._touch(broker.id)
        self._brokers[broker.id] = broker
