"""The levels of metadata.version that this release runs, and what each of them allows.

The source is `MetadataVersion` of Apache Kafka 4.4.0: its levels, their names, the versions of records and requests
that a level decides, and the contents of the metadata log that a level knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

DIRECTORIES_LEVEL: Final = 17
ELR_LEVEL: Final = 23
CIDR_ACLS_LEVEL: Final = 32


class MetadataVersion(NamedTuple):
    """A level of metadata.version."""

    level: int
    name: str
    changes_metadata: bool
    """Whether the metadata log may have contents from this level on that a lower level does not know. A cluster does
    not return from it to a lower level."""

    serves_zk_migration: bool
    """Whether a registration may say that a broker migrates from ZooKeeper (KIP-866)."""
    serves_scram: bool
    """Whether SCRAM credentials are in the metadata log (KIP-900)."""
    raises_leader_epoch_on_isr_shrink: bool
    """Whether a replica that leaves the in-sync set raises the leader epoch (until KAFKA-15021)."""
    serves_metadata_transactions: bool
    """Whether the metadata log has transactions (KIP-868)."""
    serves_delegation_tokens: bool
    """Whether delegation tokens are in the metadata log (KIP-900)."""
    registers_controllers: bool
    """Whether controllers register (KIP-919)."""
    assigns_directories: bool
    """Whether brokers register their log directories, and replicas are assigned to them (KIP-858). Without it a broker
    has one log directory."""
    serves_elr: bool
    """Whether partitions may have eligible leader replicas (KIP-966)."""
    serves_cordons: bool
    """Whether brokers report cordoned log directories, and the controller places no replicas there (KIP-1066)."""
    serves_address_ranges: bool
    """Whether an access control entry may name a range of addresses (KIP-1276)."""
    unregisters_controllers: bool
    """Whether a controller can be unregistered (KIP-1312)."""

    register_broker_record_version: int
    """The version of RegisterBrokerRecord. 2 adds brokers that migrate from ZooKeeper, 3 log directories, 4 cordoned
    log directories."""
    partition_record_version: int
    """The version of PartitionRecord and PartitionChangeRecord. 1 adds log directories, 2 eligible leader replicas."""
    fetch_version: int
    """The highest version of a follower's Fetch. 15 adds the broker epoch (KIP-903)."""
    list_offsets_version: int
    """The highest version of a follower's ListOffsets. 8 adds the start of the local log (KIP-405)."""


def _version(level: int, name: str, changes_metadata: bool) -> MetadataVersion:
    """Return the level with all that it allows, as Kafka's MetadataVersion derives it."""
    return MetadataVersion(
        level,
        name,
        changes_metadata,
        serves_zk_migration=level >= 8,
        serves_scram=level >= 11,
        raises_leader_epoch_on_isr_shrink=level < 12,
        serves_metadata_transactions=level >= 13,
        serves_delegation_tokens=level >= 14,
        registers_controllers=level >= 15,
        assigns_directories=level >= DIRECTORIES_LEVEL,
        serves_elr=level >= ELR_LEVEL,
        serves_cordons=level >= 30,
        serves_address_ranges=level >= CIDR_ACLS_LEVEL,
        unregisters_controllers=level >= 33,
        register_broker_record_version=_since(level, ((30, 4), (DIRECTORIES_LEVEL, 3), (8, 2)), 1),
        partition_record_version=_since(level, ((ELR_LEVEL, 2), (DIRECTORIES_LEVEL, 1)), 0),
        fetch_version=_since(level, ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14)), 13),
        list_offsets_version=_since(level, ((29, 11), (25, 10), (21, 9), (9, 8)), 7),
    )


def _since(level: int, versions: tuple[tuple[int, int], ...], lowest: int) -> int:
    """Return the version of the first entry (level, version) that `level` has reached. Entries descend."""
    return next((version for since, version in versions if level >= since), lowest)


METADATA_VERSIONS: Final = (
    _version(7, "3.3-IV3", True),  # Controlled shutdown in registrations of brokers (KIP-841).
    _version(8, "3.4-IV0", True),  # Migration from ZooKeeper (KIP-866).
    _version(9, "3.5-IV0", False),  # Tiered storage (KIP-405).
    _version(10, "3.5-IV1", False),  # Broker epochs in Fetch (KIP-903).
    _version(11, "3.5-IV2", True),  # SCRAM (KIP-900).
    _version(12, "3.6-IV0", False),  # No new leader epoch when the in-sync set shrinks (KAFKA-15021).
    _version(13, "3.6-IV1", True),  # Metadata transactions (KIP-868).
    _version(14, "3.6-IV2", True),  # Delegation tokens (KIP-900).
    _version(15, "3.7-IV0", True),  # Registrations of controllers (KIP-919).
    _version(16, "3.7-IV1", False),  # Reserved.
    _version(17, "3.7-IV2", True),  # Log directories (KIP-858).
    _version(18, "3.7-IV3", False),  # Reserved.
    _version(19, "3.7-IV4", False),  # Fetch version 16 (KIP-951).
    _version(20, "3.8-IV0", False),
    _version(21, "3.9-IV0", False),  # kraft.version 1 (KIP-853), ListOffsets version 9 (KIP-1005).
    _version(22, "4.0-IV0", False),  # group.version 1 in a new cluster (KIP-848).
    _version(23, "4.0-IV1", True),  # Eligible leader replicas (KIP-966).
    _version(24, "4.0-IV2", False),  # transaction.version 2 in a new cluster (KIP-890).
    _version(25, "4.0-IV3", False),  # ListOffsets version 10 (KIP-1075).
    _version(26, "4.1-IV0", False),  # eligible.leader.replicas.version 1 in a new cluster.
    _version(27, "4.1-IV1", False),  # Fetch version 18 (KIP-1166).
    _version(28, "4.2-IV0", False),  # share.version 1 in a new cluster (KIP-932).
    _version(29, "4.2-IV1", False),  # streams.version 1 in a new cluster (KIP-1071), ListOffsets version 11.
    _version(30, "4.3-IV0", True),  # Cordoned log directories (KIP-1066).
    _version(31, "4.4-IV0", False),  # share.version 2 in a new cluster (KIP-1191).
    _version(32, "4.4-IV1", True),  # Access control entries for ranges of addresses (KIP-1276).
    _version(33, "4.4-IV2", True),  # UnregisterControllerRecord (KIP-1312).
)
"""The levels that this release runs, ascending without gaps."""

METADATA_VERSION_MIN: Final = METADATA_VERSIONS[0]
METADATA_VERSION_MAX: Final = METADATA_VERSIONS[-1]

METADATA_VERSION_NAMES: Final[Mapping[int, str]] = {each.level: each.name for each in METADATA_VERSIONS}


def metadata_version_of(level: int | None) -> MetadataVersion:
    """Return the metadata.version with this level. If no level is finalized yet (None) it is the lowest one. For a
    level that this release does not run, it is the nearest one that it runs."""
    if level is None:
        return METADATA_VERSION_MIN
    index = min(max(level - METADATA_VERSION_MIN.level, 0), len(METADATA_VERSIONS) - 1)
    return METADATA_VERSIONS[index]


def level_of_release(release: str) -> int | None:
    """Return the metadata.version that a release of Kafka has in a new cluster: `4.3` or `4.3.1` name the last one of
    the release, `4.4-IV1` names itself. None if this release does not know it."""
    wanted = ".".join(release.split(".")[:2])
    found = [each.level for each in METADATA_VERSIONS if wanted in (each.name, each.name.partition("-")[0])]
    return max(found, default=None)


def loses_metadata(current: int, level: int) -> bool:
    """Whether the change of metadata.version from `current` to the lower `level` may lose contents of the metadata
    log."""
    return any(each.changes_metadata for each in METADATA_VERSIONS if level < each.level <= current)
