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
    "errors.deadletterqueue.auto.create.topics.enable": ("true", NO_EFFECT),
    "errors.deadletterqueue.topic.name.prefix": ("d", NO_EFFECT),
    "group.coordinator.cached.buffer.max.bytes": ("2000000", NO_EFFECT),
    "group.share.assignment.interval.ms": ("7", NO_EFFECT),
    "group.streams.assignment.interval.ms": ("7", NO_EFFECT),
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
    "follower.replication.throttled.rate": "1000",
    "group.consumer.assignment.interval.ms": "7",
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
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_looks_again_after_the_backoff"
    ),
    "compression.gzip.level": "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_at_the_level",
    "compression.lz4.level": "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_at_the_level",
    "compression.type": "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_by_the_codec",
    "compression.zstd.level": "tests/unit/replication/test_live_defaults.py::test_records_are_compressed_at_the_level",
    "follower.replication.throttled.rate": (
        "tests/unit/replication/test_replication_throttles.py::test_a_follower_does_not_ask_for_more_than_it_may_have"
    ),
    "group.consumer.assignment.interval.ms": (
        "tests/unit/server/test_consumer_group_configs.py::test_the_next_assignment_comes_after_the_interval"
    ),
    "kraft.broker.desired.state": (
        "tests/unit/controller/test_broker_states.py"
        "::test_a_fenced_broker_stays_fenced_while_that_is_wanted_whoever_is_the_active_controller"
    ),
    "kraft.internal.topics.growth.enable": (
        "tests/unit/controller/test_topics.py::test_it_grows_where_the_setting_allows_it"
    ),
    "kraft.unclean.recovery.strategy": (
        "tests/simulation/test_lost_replicas.py::test_a_recovery_begins_as_soon_as_there_is_a_strategy"
    ),
    "leader.replication.throttled.rate": (
        "tests/unit/replication/test_replication_throttles.py::test_a_leader_holds_back_those_named_who_are_not_in_sync"
    ),
    "log.cleaner.dedupe.buffer.size": (
        "tests/unit/replication/test_live_defaults.py::test_one_cleaning_knows_as_many_keys_as_there_is_memory_for"
    ),
    "log.cleaner.delete.retention.ms": (
        "tests/unit/replication/test_live_defaults.py::test_tombstones_go_after_the_retention"
    ),
    "log.cleaner.io.buffer.load.factor": (
        "tests/unit/replication/test_live_defaults.py::test_one_cleaning_knows_as_many_keys_as_there_is_memory_for"
    ),
    "log.cleaner.io.buffer.size": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_writes_as_much_at_once_as_it_has_a_buffer_for"
    ),
    "log.cleaner.io.max.bytes.per.second": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_begins_when_it_may"
    ),
    "log.cleaner.max.compaction.lag.ms": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_begins_when_it_may"
    ),
    "log.cleaner.min.cleanable.ratio": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_begins_when_it_may"
    ),
    "log.cleaner.min.compaction.lag.ms": (
        "tests/unit/replication/test_live_defaults.py::test_the_cleaner_begins_when_it_may"
    ),
    "log.cleaner.threads": (
        "tests/unit/replication/logs/test_tasks.py"
        "::test_several_logs_are_cleaned_at_once_and_as_many_as_are_configured_by_now"
    ),
    "log.cleanup.policy": (
        "tests/unit/replication/test_live_defaults.py::test_records_need_keys_once_logs_are_compacted"
    ),
    "log.flush.interval.messages": (
        "tests/unit/replication/test_live_defaults.py"
        "::test_answers_wait_for_the_disk_once_so_many_records_are_not_flushed"
    ),
    "log.flush.interval.ms": (
        "tests/unit/replication/test_live_defaults.py::test_timed_flushes_begin_when_an_interval_is_set"
    ),
    "log.index.interval.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_the_index_has_an_entry_for_each_interval"
    ),
    "log.index.size.max.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_a_segment_is_closed_when_its_index_is_full"
    ),
    "log.local.retention.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_a_tiered_log_keeps_as_much_on_the_disk_as_is_set"
    ),
    "log.local.retention.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_tiered_log_keeps_as_much_on_the_disk_as_is_set"
    ),
    "log.message.timestamp.after.max.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_timestamp_is_refused_beyond_the_bound"
    ),
    "log.message.timestamp.before.max.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_timestamp_is_refused_beyond_the_bound"
    ),
    "log.message.timestamp.type": (
        "tests/unit/replication/test_live_defaults.py::test_records_get_the_time_of_the_append"
    ),
    "log.retention.bytes": (
        "tests/unit/replication/test_live_defaults.py::test_closed_segments_are_deleted_by_age_and_by_size"
    ),
    "log.retention.ms": (
        "tests/unit/replication/test_live_defaults.py::test_closed_segments_are_deleted_by_age_and_by_size"
    ),
    "log.roll.jitter.ms": (
        "tests/unit/replication/test_live_defaults.py::test_a_segment_is_closed_earlier_by_its_share_of_the_jitter"
    ),
    "log.roll.ms": "tests/unit/replication/test_live_defaults.py::test_a_segment_is_closed_at_its_age",
    "log.segment.bytes": "tests/unit/replication/test_live_defaults.py::test_a_segment_is_closed_at_its_size",
    "log.segment.delete.delay.ms": (
        "tests/unit/replication/test_live_defaults.py::test_files_of_deleted_segments_go_after_the_delay"
    ),
    "max.connection.creation.rate": (
        "tests/unit/server/test_connection_limits.py::test_an_altered_limit_holds_for_the_next_connection"
    ),
    "max.connections": (
        "tests/unit/server/test_connection_limits.py::test_an_altered_limit_holds_for_the_next_connection"
    ),
    "max.connections.per.ip": (
        "tests/unit/server/test_connection_limits.py::test_an_altered_limit_holds_for_the_next_connection"
    ),
    "max.connections.per.ip.overrides": (
        "tests/unit/server/test_connection_limits.py::test_an_altered_limit_holds_for_the_next_connection"
    ),
    "message.max.bytes": "tests/unit/replication/test_live_defaults.py::test_a_batch_is_refused_beyond_the_size",
    "min.insync.replicas": (
        "tests/unit/replication/test_live_defaults.py::test_a_produce_needs_as_many_replicas_in_sync"
    ),
    "producer.id.expiration.ms": (
        "tests/unit/replication/logs/test_tasks.py::test_how_long_producers_are_known_changes_while_the_broker_runs"
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "tests/unit/replication/logs/test_mover.py::test_a_rate_that_is_set_while_the_node_runs_holds_for_copies"
    ),
    "transaction.partition.verification.enable": (
        "tests/unit/replication/test_live_defaults.py"
        "::test_transactions_are_written_unverified_where_that_is_switched_off"
    ),
    "unclean.leader.election.enable": (
        "tests/simulation/test_lost_replicas.py::test_an_unclean_election_happens_as_soon_as_it_is_allowed"
    ),
}
"""The test of what each does when it is changed on a live node."""


@pytest.fixture(scope="module")
def node() -> NodeConfig:
    return load_node_config()


def change(node: NodeConfig, name: str, text: str) -> None:
    check_request(ResourceType.BROKER, "1", [Alteration(name, Operation.SET, text)], node)


def test_every_key_that_may_be_changed_has_a_row() -> None:
    """Keys of what is not served at all are refused by the controller's gate, or name plugins."""
    dynamic = {
        row.name
        for row in BROKER_KEYS
        if row.update_mode != UpdateMode.READ_ONLY and row.status in (Status.ENFORCED, Status.ACCEPTED)
    }
    assert dynamic == {*REFUSED, *TAKEN}
    assert not {*REFUSED} & {*TAKEN}


@pytest.mark.parametrize("name", TAKEN)
def test_the_effect_of_every_key_that_may_be_changed_is_shown(name: str) -> None:
    assert missing_test(EFFECTS[name]) is None


def test_no_effect_is_told_of_other_keys() -> None:
    assert EFFECTS.keys() == TAKEN.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_would_do_nothing_is_refused(name: str, node: NodeConfig) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(ApiError) as refused:
        change(node, name, text)
    assert refused.value.code == INVALID_REQUEST
    assert (refused.value.message or "").startswith(f"{name} cannot be changed while the broker runs: {reason}")
    check_request(ResourceType.BROKER, "1", [Alteration(name, Operation.DELETE, None)], node)


def test_a_key_of_one_listener_alone_is_refused_likewise(node: NodeConfig) -> None:
    with pytest.raises(ApiError, match="To renew keys, replace the files"):
        change(node, "listener.name.plaintext.ssl.keystore.location", "new.pem")


def test_the_value_in_force_may_be_set_again(node: NodeConfig) -> None:
    for name in ("num.io.threads", "background.threads"):
        change(node, name, str(node.values[name]))


@pytest.mark.parametrize("name", TAKEN)
def test_a_change_that_the_broker_obeys_is_taken(name: str, node: NodeConfig) -> None:
    change(node, name, TAKEN[name])


@pytest.mark.parametrize(
    "name", ["queued.max.requests", "log.dir.failure.timeout.ms", "offsets.topic.compression.codec"]
)
def test_a_key_that_kafka_reads_at_start_cannot_be_changed(name: str, node: NodeConfig) -> None:
    with pytest.raises(ApiError, match="Cannot update these configs dynamically"):
        change(node, name, "3")


@pytest.mark.parametrize(
    ("threads", "complaint"), [("0", "at least 1"), ("3", "more than double the current value 1"), ("2", "")]
)
def test_the_cleaners_threads_at_most_double_at_a_time(threads: str, complaint: str, node: NodeConfig) -> None:
    if not complaint:
        change(node, "log.cleaner.threads", threads)
        return
    with pytest.raises(ApiError, match=complaint):
        change(node, "log.cleaner.threads", threads)
