"""What each level of metadata.version allows."""

from __future__ import annotations

import pytest

from kraft.common.features import SUPPORTED_FEATURES, missing_requirement
from kraft.common.metadata_versions import METADATA_VERSIONS, loses_metadata, metadata_version_of

ELR = "eligible.leader.replicas.version"

LEVELS = """
 7 3.3-IV3 changes 1 0 13  7 bump
 8 3.4-IV0 changes 2 0 13  7 bump zk
 9 3.5-IV0 same    2 0 14  8 bump zk
10 3.5-IV1 same    2 0 15  8 bump zk
11 3.5-IV2 changes 2 0 15  8 bump zk scram
12 3.6-IV0 same    2 0 15  8 zk scram
13 3.6-IV1 changes 2 0 15  8 zk scram transactions
14 3.6-IV2 changes 2 0 15  8 zk scram transactions tokens
15 3.7-IV0 changes 2 0 15  8 zk scram transactions tokens controllers
16 3.7-IV1 same    2 0 15  8 zk scram transactions tokens controllers
17 3.7-IV2 changes 3 1 15  8 zk scram transactions tokens controllers directories
18 3.7-IV3 same    3 1 15  8 zk scram transactions tokens controllers directories
19 3.7-IV4 same    3 1 16  8 zk scram transactions tokens controllers directories
20 3.8-IV0 same    3 1 16  8 zk scram transactions tokens controllers directories
21 3.9-IV0 same    3 1 17  9 zk scram transactions tokens controllers directories
22 4.0-IV0 same    3 1 17  9 zk scram transactions tokens controllers directories
23 4.0-IV1 changes 3 2 17  9 zk scram transactions tokens controllers directories elr
24 4.0-IV2 same    3 2 17  9 zk scram transactions tokens controllers directories elr
25 4.0-IV3 same    3 2 17 10 zk scram transactions tokens controllers directories elr
26 4.1-IV0 same    3 2 17 10 zk scram transactions tokens controllers directories elr
27 4.1-IV1 same    3 2 18 10 zk scram transactions tokens controllers directories elr
28 4.2-IV0 same    3 2 18 10 zk scram transactions tokens controllers directories elr
29 4.2-IV1 same    3 2 18 11 zk scram transactions tokens controllers directories elr
30 4.3-IV0 changes 4 2 18 11 zk scram transactions tokens controllers directories elr cordons
31 4.4-IV0 same    4 2 18 11 zk scram transactions tokens controllers directories elr cordons
32 4.4-IV1 changes 4 2 18 11 zk scram transactions tokens controllers directories elr cordons ranges
33 4.4-IV2 changes 4 2 18 11 zk scram transactions tokens controllers directories elr cordons ranges unregister
"""
"""Level, name, whether it changes metadata, versions of RegisterBrokerRecord, PartitionRecord, Fetch and ListOffsets,
and what it allows: as MetadataVersion of Apache Kafka 4.4.0 answers."""

ALLOWED = {
    "bump": "raises_leader_epoch_on_isr_shrink",
    "zk": "serves_zk_migration",
    "scram": "serves_scram",
    "transactions": "serves_metadata_transactions",
    "tokens": "serves_delegation_tokens",
    "controllers": "registers_controllers",
    "directories": "assigns_directories",
    "elr": "serves_elr",
    "cordons": "serves_cordons",
    "ranges": "serves_address_ranges",
    "unregister": "unregisters_controllers",
}


def test_every_level_allows_what_it_allows_in_kafka() -> None:
    rows = [line.split() for line in LEVELS.strip().splitlines()]
    assert rows == [
        [
            str(each.level),
            each.name,
            "changes" if each.changes_metadata else "same",
            str(each.register_broker_record_version),
            str(each.partition_record_version),
            str(each.fetch_version),
            str(each.list_offsets_version),
            *(word for word, name in ALLOWED.items() if getattr(each, name)),
        ]
        for each in METADATA_VERSIONS
    ]


def test_all_levels_of_the_table_are_advertised() -> None:
    assert SUPPORTED_FEATURES["metadata.version"] == (7, 33)
    assert [each.level for each in METADATA_VERSIONS] == list(range(7, 34))


@pytest.mark.parametrize(("level", "name"), [(None, "3.3-IV3"), (6, "3.3-IV3"), (25, "4.0-IV3"), (99, "4.4-IV2")])
def test_a_level_outside_of_the_table_counts_as_the_nearest(level: int | None, name: str) -> None:
    assert metadata_version_of(level).name == name


@pytest.mark.parametrize(
    ("current", "level", "loses"), [(29, 23, False), (30, 29, True), (33, 32, True), (22, 17, False), (17, 16, True)]
)
def test_a_lower_level_loses_metadata_exactly_where_contents_were_added(current: int, level: int, loses: bool) -> None:
    assert loses_metadata(current, level) is loses


def test_eligible_leader_replicas_need_the_level_whose_records_have_them() -> None:
    assert missing_requirement(ELR, 1, {"metadata.version": 23}) is None
    assert missing_requirement(ELR, 0, {"metadata.version": 7}) is None
    assert missing_requirement("group.version", 1, {"metadata.version": 7}) is None
    assert missing_requirement(ELR, 1, {"metadata.version": 22}) == (
        f"{ELR} could not be set to 1 because it depends on metadata.version level 23"
    )
