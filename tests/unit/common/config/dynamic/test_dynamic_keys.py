"""What becomes of a change to each key that Kafka lets a running broker change."""

from __future__ import annotations

import pytest

from kraft.common.config.definition import Status, UpdateMode
from kraft.common.config.dynamic.alterations import INVALID_REQUEST, Alteration, Operation, check_request
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.resources import BROKER_KEYS, TLS_KEYS
from kraft.common.errors import ApiError
from tests.named_tests import missing_test

NO_EFFECT = "it has no effect here"
READ_AT_START = "it is read when the broker starts"

REPLACE_FILES = "set it in the broker's configuration and restart the broker. To renew keys, replace the files"
REFUSED = {
    "background.threads": ("11", NO_EFFECT),
    "config.providers": ("file", READ_AT_START),
    "group.coordinator.cached.buffer.max.bytes": ("2000000", NO_EFFECT),
    "listener.security.protocol.map": ("A:PLAINTEXT", READ_AT_START),
    "listeners": ("PLAINTEXT://127.0.0.1:1", READ_AT_START),
    "log.preallocate": ("true", NO_EFFECT),
    "log.remote.copy.lag.bytes": ("7", NO_EFFECT),
    "log.remote.copy.lag.ms": ("7", NO_EFFECT),
    "max.decompressed.message.bytes": ("7", NO_EFFECT),
    "num.io.threads": ("9", NO_EFFECT),
    "num.network.threads": ("4", NO_EFFECT),
    "num.recovery.threads.per.data.dir": ("3", NO_EFFECT),
    "num.replica.fetchers": ("2", NO_EFFECT),
    "remote.fetch.max.wait.ms": ("1000", READ_AT_START),
    "remote.list.offsets.request.timeout.ms": ("1000", READ_AT_START),
    "remote.log.index.file.cache.total.size.bytes": ("1000", READ_AT_START),
    "remote.log.manager.copier.thread.pool.size": ("11", READ_AT_START),
    "remote.log.manager.copy.max.bytes.per.second": ("1000", READ_AT_START),
    "remote.log.manager.expiration.thread.pool.size": ("11", NO_EFFECT),
    "remote.log.manager.fetch.max.bytes.per.second": ("1000", READ_AT_START),
    "remote.log.manager.follower.thread.pool.size": ("3", NO_EFFECT),
    "remote.log.reader.threads": ("11", READ_AT_START),
    "share.coordinator.cached.buffer.max.bytes": ("2000000", NO_EFFECT),
    "ssl.keystore.type": ("PEM", NO_EFFECT),
    "ssl.protocol": ("TLSv1.2", NO_EFFECT),
    "ssl.truststore.type": ("PEM", NO_EFFECT),
    **{name: ("x", REPLACE_FILES) for name in TLS_KEYS if not BROKER_KEYS[name].read_only},
    "ssl.client.auth": ("required", REPLACE_FILES),
    "sasl.enabled.mechanisms": ("PLAIN", READ_AT_START),
    "sasl.jaas.config": ("x", READ_AT_START),
    "sasl.login.refresh.buffer.seconds": ("7", READ_AT_START),
    "sasl.login.refresh.min.period.seconds": ("7", READ_AT_START),
    "sasl.login.refresh.window.factor": ("0.7", READ_AT_START),
    "sasl.login.refresh.window.jitter": ("0.1", READ_AT_START),
    "sasl.mechanism.inter.broker.protocol": ("PLAIN", READ_AT_START),
}
"""A value other than the default, and the reason for the refusal."""

TAKEN = {
    "compression.gzip.level": "3",
    "compression.lz4.level": "3",
    "compression.type": "gzip",
    "compression.zstd.level": "5",
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "errors.deadletterqueue.topic.name.prefix": "d",
    "follower.replication.throttled.rate": "1000",
    "group.consumer.assignment.interval.ms": "7",
    "group.share.assignment.interval.ms": "7",
    "group.streams.assignment.interval.ms": "7",
    "kraft.broker.desired.state": "maintenance",
    "kraft.internal.topics.growth.enable": "true",
    "kraft.unclean.recovery.strategy": "aggressive",
    "leader.replication.throttled.rate": "1000",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4000000",
    "log.cleaner.io.buffer.load.factor": "0.5",
    "log.cleaner.io.buffer.size": "4000",
    "log.cleaner.io.max.bytes.per.second": "1000",
    "log.cleaner.threads": "2",
    "log.cleaner.delete.retention.ms": "100",
    "log.cleaner.max.compaction.lag.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.cleaner.min.compaction.lag.ms": "100",
    "log.cleanup.policy": "compact",
    "log.flush.interval.messages": "7",
    "log.flush.interval.ms": "7",
    "log.index.interval.bytes": "100",
    "log.index.size.max.bytes": "1000",
    "log.local.retention.bytes": "1000",
    "cordoned.log.dirs": "*",
    "log.local.retention.ms": "1000",
    "log.message.timestamp.after.max.ms": "100",
    "log.message.timestamp.before.max.ms": "100",
    "log.message.timestamp.type": "LogAppendTime",
    "log.retention.bytes": "2000000",
    "log.retention.ms": "100000",
    "log.roll.jitter.ms": "10",
    "log.roll.ms": "100000",
    "log.segment.bytes": "2000000",
    "log.segment.delete.delay.ms": "10",
    "max.connection.creation.rate": "100",
    "max.connections": "100",
    "max.connections.per.ip": "100",
    "max.connections.per.ip.overrides": "127.0.0.1:5",
    "message.max.bytes": "2000",
    "producer.id.expiration.ms": "1000",
    "min.insync.replicas": "2",
    "replica.alter.log.dirs.io.max.bytes.per.second": "1000",
    "transaction.partition.verification.enable": "false",
    "unclean.leader.election.enable": "true",
}
"""Keys that a running broker obeys."""

EFFECTS = {
    "log.cleaner.backoff.ms": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_checks_again_after_its_backoff"
    ),
    "compression.gzip.level": (
        "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_at_the_configured_level"
    ),
    "compression.lz4.level": (
        "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_at_the_configured_level"
    ),
    "compression.type": (
        "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_with_the_configured_codec"
    ),
    "compression.zstd.level": (
        "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_at_the_configured_level"
    ),
    "cordoned.log.dirs": (
        "tests/unit/replication/test_cordoned_directories.py"
        "::test_new_replicas_avoid_a_cordoned_directory_and_existing_ones_stay"
    ),
    "errors.deadletterqueue.auto.create.topics.enable": (
        "tests/unit/server/share/test_dead_letter_writer.py"
        "::test_a_changed_configuration_of_the_brokers_holds_for_the_next_letter"
    ),
    "errors.deadletterqueue.topic.name.prefix": (
        "tests/unit/server/share/test_dead_letter_writer.py"
        "::test_a_changed_configuration_of_the_brokers_holds_for_the_next_letter"
    ),
    "follower.replication.throttled.rate": (
        "tests/unit/replication/test_replication_throttles.py::test_a_throttled_follower_does_not_fetch_beyond_its_quota"
    ),
    "group.consumer.assignment.interval.ms": (
        "tests/unit/server/test_group_configs.py::test_the_next_assignment_is_computed_after_the_interval"
    ),
    "group.share.assignment.interval.ms": (
        "tests/unit/server/test_group_configs.py::test_the_next_assignment_of_a_share_group_is_computed_after_its_interval"
    ),
    "group.streams.assignment.interval.ms": (
        "tests/unit/server/test_group_configs.py::test_the_next_assignment_of_a_streams_group_is_computed_after_its_interval"
    ),
    "kraft.broker.desired.state": (
        "tests/unit/controller/test_broker_states.py"
        "::test_an_operator_fenced_broker_stays_fenced_under_every_active_controller"
    ),
    "kraft.internal.topics.growth.enable": (
        "tests/unit/controller/test_topics.py::test_internal_topics_get_new_partitions_when_the_growth_setting_allows_it"
    ),
    "kraft.unclean.recovery.strategy": (
        "tests/simulation/test_lost_replicas.py::test_setting_a_recovery_strategy_starts_a_recovery_immediately"
    ),
    "leader.replication.throttled.rate": (
        "tests/unit/replication/test_replication_throttles.py::test_a_leader_throttles_only_listed_replicas_that_are_out_of_sync"
    ),
    "log.cleaner.dedupe.buffer.size": (
        "tests/unit/replication/test_live_defaults.py::test_one_cleaning_holds_as_many_keys_as_the_dedupe_buffer_fits"
    ),
    "log.cleaner.delete.retention.ms": (
        "tests/unit/replication/test_live_defaults.py::test_tombstones_are_removed_after_delete_retention_ms"
    ),
    "log.cleaner.io.buffer.load.factor": (
        "tests/unit/replication/test_live_defaults.py::test_one_cleaning_holds_as_many_keys_as_the_dedupe_buffer_fits"
    ),
    "log.cleaner.io.buffer.size": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_writes_in_chunks_of_its_io_buffer_size"
    ),
    "log.cleaner.io.max.bytes.per.second": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_starts_when_it_is_enabled"
    ),
    "log.cleaner.max.compaction.lag.ms": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_starts_when_it_is_enabled"
    ),
    "log.cleaner.min.cleanable.ratio": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_starts_when_it_is_enabled"
    ),
    "log.cleaner.min.compaction.lag.ms": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_starts_when_it_is_enabled"
    ),
    "log.cleaner.threads": (
        "tests/unit/replication/logs/test_tasks.py"
        "::test_log_cleaner_threads_limits_concurrent_cleanings_and_changes_at_run_time"
    ),
    "log.cleanup.policy": (
        "tests/unit/replication/test_live_defaults.py::test_records_need_keys_once_the_topic_is_compacted"
    ),
    "log.flush.interval.messages": (
        "tests/unit/replication/test_live_defaults.py"
        "::test_produce_responses_wait_for_a_sync_once_flush_messages_is_reached"
    ),
    "log.flush.interval.ms": (
        "tests/unit/replication/test_live_defaults.py::test_timed_flushes_start_when_a_flush_interval_is_set"
    ),
    "log.index.interval.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_the_offset_index_has_an_entry_per_index_interval_bytes"
    ),
    "log.index.size.max.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_a_segment_rolls_when_its_index_is_full"
    ),
    "log.local.retention.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_a_tiered_log_keeps_local_retention_bytes_on_disk"
    ),
    "log.local.retention.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_tiered_log_keeps_local_retention_bytes_on_disk"
    ),
    "log.message.timestamp.after.max.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_timestamp_outside_the_configured_bound_is_refused"
    ),
    "log.message.timestamp.before.max.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_timestamp_outside_the_configured_bound_is_refused"
    ),
    "log.message.timestamp.type": (
        "tests/unit/replication/test_live_defaults.py::test_records_get_the_append_time_when_log_append_time_is_set"
    ),
    "log.retention.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_closed_segments_are_deleted_by_age_and_by_size"
    ),
    "log.retention.ms": (
        "tests/unit/replication/test_live_defaults.py::test_closed_segments_are_deleted_by_age_and_by_size"
    ),
    "log.roll.jitter.ms": ("tests/unit/replication/test_live_defaults.py::test_a_segment_rolls_earlier_by_its_jitter"),
    "log.roll.ms": "tests/unit/replication/test_live_defaults.py::test_a_segment_rolls_at_segment_ms",
    "log.segment.bytes": "tests/unit/replication/test_live_defaults.py::test_a_segment_rolls_at_segment_bytes",
    "log.segment.delete.delay.ms": (
        "tests/unit/replication/test_live_defaults.py::test_files_of_deleted_segments_are_removed_after_the_delay"
    ),
    "max.connection.creation.rate": (
        "tests/unit/server/test_connection_limits.py::test_a_changed_connection_limit_applies_to_the_next_connection"
    ),
    "max.connections": (
        "tests/unit/server/test_connection_limits.py::test_a_changed_connection_limit_applies_to_the_next_connection"
    ),
    "max.connections.per.ip": (
        "tests/unit/server/test_connection_limits.py::test_a_changed_connection_limit_applies_to_the_next_connection"
    ),
    "max.connections.per.ip.overrides": (
        "tests/unit/server/test_connection_limits.py::test_a_changed_connection_limit_applies_to_the_next_connection"
    ),
    "message.max.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_a_batch_larger_than_max_message_bytes_is_refused"
    ),
    "min.insync.replicas": ("tests/unit/replication/test_live_defaults.py::test_a_produce_needs_min_insync_replicas"),
    "producer.id.expiration.ms": (
        "tests/unit/replication/logs/test_tasks.py::test_producer_id_expiration_ms_changes_at_run_time"
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "tests/unit/replication/logs/test_mover.py::test_a_rate_limit_changed_at_run_time_applies_to_copies"
    ),
    "transaction.partition.verification.enable": (
        "tests/unit/replication/test_live_defaults.py"
        "::test_transactions_are_appended_unverified_when_verification_is_disabled"
    ),
    "unclean.leader.election.enable": (
        "tests/simulation/test_lost_replicas.py::test_enabling_unclean_elections_elects_a_leader_immediately"
    ),
}
"""The test of what each does when it is changed on a live node."""


@pytest.fixture(scope="module")
def node() -> NodeConfig:
    return load_node_config()


def change(node: NodeConfig, name: str, text: str) -> None:
    check_request(ResourceType.BROKER, "1", [Alteration(name, Operation.SET, text)], node)


def test_every_dynamic_key_has_a_row() -> None:
    """Keys of what is not served at all are refused by the controller's gate, or name plugins."""
    dynamic = {
        row.name
        for row in BROKER_KEYS
        if row.update_mode != UpdateMode.READ_ONLY and row.status in (Status.ENFORCED, Status.ACCEPTED)
    }
    assert dynamic == {*REFUSED, *TAKEN}
    assert not {*REFUSED} & {*TAKEN}


@pytest.mark.parametrize("name", TAKEN)
def test_the_effect_of_every_dynamic_key_is_shown(name: str) -> None:
    assert missing_test(EFFECTS[name]) is None


def test_no_effect_is_documented_for_other_keys() -> None:
    assert EFFECTS.keys() == TAKEN.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_without_effect_is_rejected(name: str, node: NodeConfig) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(ApiError) as refused:
        change(node, name, text)
    assert refused.value.code == INVALID_REQUEST
    assert (refused.value.message or "").startswith(f"{name} cannot be changed while the broker runs: {reason}")
    check_request(ResourceType.BROKER, "1", [Alteration(name, Operation.DELETE, None)], node)


def test_a_change_without_effect_on_one_listener_is_rejected(node: NodeConfig) -> None:
    with pytest.raises(ApiError, match="To renew keys, replace the files"):
        change(node, "listener.name.plaintext.ssl.keystore.location", "new.pem")


def test_the_current_value_can_be_set_again(node: NodeConfig) -> None:
    for name in ("num.io.threads", "background.threads"):
        change(node, name, str(node.values[name]))


@pytest.mark.parametrize("name", TAKEN)
def test_a_change_that_the_broker_applies_is_accepted(name: str, node: NodeConfig) -> None:
    change(node, name, TAKEN[name])


@pytest.mark.parametrize(
    "name", ["queued.max.requests", "log.dir.failure.timeout.ms", "offsets.topic.compression.codec"]
)
def test_a_key_that_kafka_reads_only_at_start_cannot_be_changed(name: str, node: NodeConfig) -> None:
    with pytest.raises(ApiError, match="Cannot update these configs dynamically"):
        change(node, name, "3")


@pytest.mark.parametrize(
    ("threads", "complaint"), [("0", "at least 1"), ("3", "more than double the current value 1"), ("2", "")]
)
def test_the_number_of_cleaner_threads_at_most_doubles_in_one_change(
    threads: str, complaint: str, node: NodeConfig
) -> None:
    if not complaint:
        change(node, "log.cleaner.threads", threads)
        return
    with pytest.raises(ApiError, match=complaint):
        change(node, "log.cleaner.threads", threads)
