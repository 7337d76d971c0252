"""Where kraft behaves otherwise than Apache Kafka on purpose: `DIFFERENCES` show in vectors, `BEYOND_VECTORS` take
more than one client or some time to see.

Each has a name and the reason, in a sentence for users; docs/api-support.md lists them all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`where` is a regular expression over `module/case/version/step/path.of.the.field`."""

    name: str
    where: str
    reason: str

    def covers(self, place: str) -> bool:
        return re.fullmatch(self.where, place) is not None


@dataclass(frozen=True)
class Documented:
    """A difference that no vector shows. `tests` are the node ids of those that show our side of it."""

    name: str
    reason: str
    tests: tuple[str, ...]


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "quotas of two users at once",
        r"quotas/same-part-twice/.*",
        "AlterClientQuotas refuses an entity that names a type twice. Kafka takes the last name, without a word.",
    ),
    Difference(
        "null records are answered",
        r"produce/null-records/.*",
        "Null records are refused like empty ones. Kafka forgets to answer and the client waits for its timeout.",
    ),
    Difference(
        "frames that few can read",
        (
            r"frames/(recompressed-)?frame-(lz4-content-(checksum-wrong|size-too-small|size-too-large)"
            r"|gzip-(reserved-flag|garbage-last|zeros-last|half-a-header-last)|snappy-xerial-half-a-size-last)/.*"
        ),
        (
            "A compressed batch whose frame is damaged, or followed by garbage, is refused as UNKNOWN_SERVER_ERROR. "
            "Kafka takes some of them: those whose damage Java's readers do not look at. Other readers refuse them."
        ),
    ),
    Difference(
        "unknown record formats",
        r"batch_headers/header-magic-(3|negative)(-lz4)?/.*\.error_message",
        "A batch of a format that never was is CORRUPT_MESSAGE as in Kafka, without a sentence.",
    ),
    Difference(
        "append times that producers claim",
        r"batch_headers/header-log-append-time-and-(another|no)-max-timestamp(-lz4)?/.*",
        (
            "A batch that a producer marks with LogAppendTime, in a topic with CreateTime, gets the largest timestamp "
            "of its records. Kafka keeps the one that the header says, which look-ups by time then miss."
        ),
    ),
    Difference(
        "offsets inside a batch are made consecutive",
        r"batch_headers/records-offset(s-not-from-zero|s-with-a-gap|s-backward|s-repeated|-negative)(-lz4)?/.*",
        (
            "Records of a produced batch whose offset deltas are not 0, 1, 2 and so on are numbered anew. Kafka stores "
            "them as they are when they are not compressed, and says UNKNOWN_SERVER_ERROR when they are."
        ),
    ),
    Difference(
        "records with a wrong length",
        r"batch_headers/records-(record-too-long|last-record-too-long|record-too-short)-lz4/.*",
        (
            "A compressed batch with a record whose length is wrong is refused as INVALID_RECORD. Kafka stores it, and "
            "consumers stop at it."
        ),
    ),
    Difference(
        "garbage in place of records",
        r"batch_headers/records-garbage/.*\.error_code",
        "It is INVALID_RECORD whatever it holds. Kafka says UNKNOWN_SERVER_ERROR for some of it.",
    ),
    Difference(
        "no default for the assignor of streams groups",
        r"configs/group-all/.*/results\.0\.configs\.15\..*",
        ("streams.assignor.name shows no value and no synonym. Kafka shows the first of group.streams.assignors."),
    ),
    Difference(
        "a resource replaced twice is answered",
        r"configs/replace-same-resource-twice/.*",
        (
            "AlterConfigs of one resource twice in a request is refused as INVALID_REQUEST. Kafka forgets to "
            "answer and the client waits."
        ),
    ),
    Difference(
        "unknown operations are the client's fault",
        r"configs/unknown-operation/.*/responses\.0\.error_(code|message)",
        (
            "IncrementalAlterConfigs with an operation that does not exist is INVALID_REQUEST with a reason. "
            "Kafka says UNKNOWN_SERVER_ERROR, as if it had failed."
        ),
    ),
    Difference(
        "no unknown broker settings",
        r"configs/set-unknown-on-broker/.*/responses\.0\.error_(code|message)",
        (
            "A key that no broker knows is refused as INVALID_CONFIG, since it is most often misspelt. Kafka "
            "stores it and ignores it."
        ),
    ),
    Difference(
        "created at once",
        r"cluster/metadata-creates/.*",
        "The answer that creates a topic already describes it. Kafka says UNKNOWN_TOPIC_OR_PARTITION first.",
    ),
    Difference(
        "listeners with unknown protocols",
        r"registration/register-listener-of-unknown-protocol/.*/error_code",
        "A broker that registers one is told INVALID_REGISTRATION. Kafka says UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "groups that are not served say so",
        r"unserved_groups/.*error_message",
        "Requests of share groups and streams groups are answered with a message beside UNSUPPORTED_VERSION.",
    ),
    Difference(
        "a topology's epoch is not negative",
        r"streams_groups/streams-invalid/[01]/4/error_(code|message)",
        "A topology with a negative epoch is INVALID_REQUEST. Kafka says UNKNOWN_SERVER_ERROR.",
    ),
    Difference(
        "refused members of share groups are told why",
        r"share_groups/.*error_message",
        "ShareFetch and ShareAcknowledge say which epoch, range or type is wrong. Kafka gives the code alone.",
    ),
    Difference(
        "the start offset of a share group is stored with the acknowledgement",
        r"share_groups/share-(acknowledged|dead-letters)/.*start_offset",
        "Kafka stores it with the next one, so that tools show it late.",
    ),
    Difference(
        "clients push totals",
        r"telemetry/.*/delta_temporality",
        (
            "GetTelemetrySubscriptions asks clients for sums as totals, so that a lost push loses nothing. Kafka asks "
            "for differences."
        ),
    ),
    Difference(
        "compressed pushes may hold more",
        r"telemetry/telemetry-larger-than-a-push-decompressed/.*/error_code",
        (
            "The metrics of a client may have 4 MiB after decompression, or telemetry.max.bytes if that is more. Kafka "
            "refuses more than telemetry.max.bytes, of 1 MiB by default, as INVALID_RECORD: the client then pushes no "
            "more."
        ),
    ),
    Difference(
        "controllers describe what they say that they describe",
        r"at_controller/direct-describe-(credentials|credentials-of-nobody|tokens)/.*",
        (
            "Controllers answer DescribeUserScramCredentials and DescribeDelegationToken. Kafka's advertise both, and "
            "answer UNKNOWN_SERVER_ERROR or not at all."
        ),
    ),
    Difference(
        "refused snapshots say why",
        r"quorum/snapshot-(stale-epoch|unknown|other-topic)/.*",
        "FetchSnapshot that is refused tells the reason. Kafka answers UNKNOWN_SERVER_ERROR for all of them.",
    ),
)

BEYOND_VECTORS: tuple[Documented, ...] = (
    Documented(
        "endpoints without topics",
        (
            "A member of a streams group with an endpoint is answered while topics of the topology are missing or "
            "wrong: it has no partitions. Kafka says UNKNOWN_SERVER_ERROR to it and to those that ask for endpoints."
        ),
        tests=(
            "tests/unit/coordinator/group/streams/test_streams_heartbeat.py"
            "::test_a_member_with_an_endpoint_is_told_that_topics_are_missing",
        ),
    ),
    Documented(
        "a refused static member of a streams group takes nothing",
        (
            "While a member has an instance id, another with the same is refused, and nothing else changes. In Kafka "
            "the first loses its tasks by that."
        ),
        tests=(
            "tests/unit/coordinator/group/streams/test_streams_heartbeat.py"
            "::test_a_static_member_cannot_replace_an_unreleased_one",
        ),
    ),
    Documented(
        "a member of a streams group that left has left its tasks",
        (
            "One that joins again under its id before the next assignment waits for that without tasks. Kafka gives "
            "back those that it remembers, if nobody has them."
        ),
        tests=(
            "tests/unit/coordinator/group/streams/test_streams_heartbeat.py"
            "::test_a_member_that_left_and_returns_waits_for_the_next_assignment",
        ),
    ),
    Documented(
        "the first epoch of endpoints",
        (
            "The member that turns a group that has only offsets into a streams group is told endpoint epoch 0, as in "
            "any new group. Kafka says 1 and keeps 0."
        ),
        tests=(
            "tests/unit/coordinator/group/streams/test_streams_heartbeat.py"
            "::test_a_group_of_offsets_alone_starts_no_epoch_of_endpoints",
        ),
    ),
    Documented(
        "offsets in an epoch of nobody",
        (
            "OffsetFetch of a streams group with an epoch but without a member is UNKNOWN_MEMBER_ID. Kafka says "
            "UNKNOWN_SERVER_ERROR."
        ),
        tests=(
            "tests/unit/coordinator/group/streams/test_streams_offsets.py"
            "::test_an_epoch_without_a_member_fetches_nothing",
        ),
    ),
    Documented(
        "tombstones and markers stay longer",
        (
            "In a compacted topic they stay while a replica is not in sync, whatever delete.retention.ms says: it may "
            "have what they end. Kafka goes by the time alone."
        ),
        tests=(
            "tests/unit/replication/logs/test_cleaner_and_replicas.py"
            "::test_markers_and_tombstones_are_kept_while_a_replica_lacks_them",
            "tests/integration/test_compaction_on_replicas.py"
            "::test_transactions_ended_while_a_replica_was_down_are_ended_when_it_leads",
        ),
    ),
    Documented(
        "two leaders in one epoch",
        (
            "BeginQuorumEpoch or EndQuorumEpoch by another leader of the leader's own epoch is refused as "
            "INVALID_REQUEST. Kafka's process ends."
        ),
        tests=("tests/unit/raft/core/test_following.py::test_a_second_leader_of_the_same_epoch_is_refused",),
    ),
    Documented(
        "abandoned joins are answered",
        (
            "A JoinGroup or SyncGroup that its member has given up on, by asking again or leaving, is answered "
            "with an error. Kafka leaves it without an answer."
        ),
        tests=("tests/scenarios/groups/test_groups.py::test_scenario[abandoned_requests_are_answered]",),
    ),
    Documented(
        "static members' subscriptions",
        (
            "A static member that returns with another subscription is known by it at once. Kafka's group goes on "
            "with the old one until the next rebalance."
        ),
        tests=(
            "tests/unit/coordinator/group/service/test_group_coordinator.py"
            "::test_a_returning_static_member_gets_its_new_subscription_immediately",
        ),
    ),
    Documented(
        "no group of refused commits",
        (
            "A first commit whose metadata are all too large leaves no group behind. Kafka lists an empty one "
            "from then on."
        ),
        tests=(
            "tests/unit/coordinator/group/service/test_group_coordinator.py::test_a_refused_first_commit_creates_no_group",
        ),
    ),
    Documented(
        "ties between protocols",
        (
            "When assignment protocols get equally many votes, the one that the longest-standing member prefers "
            "is chosen. Kafka's choice follows hash order."
        ),
        tests=(
            "tests/unit/coordinator/group/service/test_group_coordinator.py"
            "::test_among_protocols_with_equal_votes_the_preference_of_the_oldest_member_wins",
        ),
    ),
    Documented(
        "unregistered brokers are no eligible leaders",
        (
            "UnregisterBroker takes the broker out of eligible leader replicas as well: it will not come back "
            "with its records. Kafka leaves it there."
        ),
        tests=("tests/unit/controller/test_leaders.py::test_an_unregistered_broker_leaves_the_elr",),
    ),
    Documented(
        "no unclean election just after a change of controllers",
        (
            "A new active controller gives every fenced broker one session to return before it elects a leader "
            "outside the in-sync set. Kafka elects at once."
        ),
        tests=(
            "tests/unit/controller/test_fencing.py"
            "::test_a_new_controller_holds_every_fenced_broker_because_the_cause_is_unknown",
        ),
    ),
    Documented(
        "unclean elections as soon as they are allowed",
        (
            "Setting unclean.leader.election.enable elects for leaderless partitions at once. Kafka looks every "
            "unclean.leader.election.interval.ms."
        ),
        tests=("tests/simulation/test_lost_replicas.py::test_enabling_unclean_elections_elects_a_leader_immediately",),
    ),
    Documented(
        "followers tell where epochs end",
        (
            "OffsetForLeaderEpoch with replica id -2 is answered by any replica, as ListOffsets is. A replica that "
            "does not lead answers for an epoch beyond its log with its last epoch and its log end. Kafka's followers "
            "answer NOT_LEADER_OR_FOLLOWER."
        ),
        tests=(
            "tests/unit/handlers/test_refusals.py"
            "::test_a_follower_answers_epoch_end_offsets_only_to_a_debugging_consumer",
        ),
    ),
    Documented(
        "having led last is no claim to lead",
        (
            "When every member of ISR and ELR has restarted uncleanly, the controller compares the logs of all "
            "replicas before one leads, and lastKnownElr may name several. Kafka elects the last known leader "
            "unasked, and its followers cut their logs to its."
        ),
        tests=(
            "tests/unit/controller/unclean/test_default_policy.py"
            "::test_the_last_leader_is_not_elected_on_a_lost_log_before_other_replicas_are_queried",
        ),
    ),
    Documented(
        "crowded batches are split",
        "A compressed batch that holds more than 250,000 records or "
        "128 MiB (or 16 MiB and 32 times its own size) "
        "is refused as MESSAGE_TOO_LARGE, upon which Kafka's producer splits it; what "
        "max.message.bytes would let through uncompressed always passes. "
        "Kafka decodes without a bound.",
        tests=(
            "tests/unit/storage/test_log_validator.py"
            "::test_a_record_count_over_the_limit_is_rejected_only_if_decoding_is_needed",
            "tests/unit/storage/test_log_validator.py"
            "::test_a_decompressed_size_over_the_limit_is_rejected_only_if_decoding_is_needed",
        ),
    ),
    Documented(
        "what is named twice is described once",
        (
            "DescribeConfigs, DescribeGroups, DescribeProducers and DescribeTransactions describe a thing once, "
            "however often a request names it. Kafka repeats it."
        ),
        tests=("tests/unit/handlers/test_refusals.py::test_a_resource_named_twice_is_described_once",),
    ),
    Documented(
        "requests have bounds",
        (
            "A request of more than 65,536 elements (topics, partitions, groups, tags) closes its connection, also "
            "the Fetch of an Apache Kafka broker that follows more than about 32,000 partitions of one leader. A "
            "request that asks the controller for more than 10,000 decisions is refused as POLICY_VIOLATION, also "
            "where Kafka would refuse each of them by itself. DescribeConfigs describes at most 400,000 keys in one "
            "answer."
        ),
        tests=(
            "tests/unit/protocol/test_element_bound.py::test_a_request_with_too_many_elements_is_rejected",
            "tests/unit/controller/test_topics.py::test_ten_thousand_records_are_the_limit_of_one_topic_creation_request",
            "tests/unit/handlers/test_refusals.py::test_the_number_of_config_keys_in_one_response_is_limited",
        ),
    ),
    Documented(
        "large commits are written in portions",
        (
            "An OffsetCommit or OffsetDelete of more than 1,100 topics and partitions is written in portions of "
            "1,100, each refused or taken whole. When the coordinator fails in between, the first ones stand. Kafka "
            "writes one batch."
        ),
        tests=(
            "tests/unit/coordinator/group/service/test_group_coordinator.py"
            "::test_a_large_commit_that_fails_midway_keeps_its_first_chunk",
        ),
    ),
    Documented(
        "dead brokers stay listed for a moment",
        (
            "Metadata lists a broker for 9 more seconds after it was fenced, unless it shut down cleanly. librdkafka "
            "drops a broker that is no longer listed, and for a second also the partitions that have just got a new "
            "leader. Kafka lists a broker until its session ends, 9 seconds by default, and fences it only then."
        ),
        tests=(
            "tests/unit/metadata/test_metadata_cache.py::test_a_dead_broker_stays_listed_for_nine_seconds",
            "tests/unit/metadata/test_metadata_cache.py::test_a_broker_that_shut_down_cleanly_is_not_listed",
        ),
    ),
    Documented(
        "a new coordinator waits for its followers",
        (
            "A coordinator that takes over answers COORDINATOR_LOAD_IN_PROGRESS until all that it read is committed: "
            "OffsetFetch without require_stable returns no offset older than an acknowledged one. The log names what "
            "it waits for (coordinator_waits_for_replication)."
        ),
        tests=(
            "tests/unit/coordinator/test_runtime.py"
            "::test_a_new_leader_does_not_answer_before_all_loaded_records_are_committed",
            "tests/unit/coordinator/test_runtime.py"
            "::test_a_new_leader_waits_for_a_silent_follower_before_it_returns_offsets",
        ),
    ),
    Documented(
        "large metadata records are refused",
        (
            "A request whose metadata record would be larger than 8 MiB is refused as RECORD_LIST_TOO_LARGE. Kafka "
            "says UNKNOWN_SERVER_ERROR."
        ),
        tests=("tests/unit/raft/test_driver.py::test_large_appends_are_split_or_refused",),
    ),
    Documented(
        "impossible epochs are refused",
        (
            "A Vote, BeginQuorumEpoch or EndQuorumEpoch with an epoch that elections cannot have reached is refused, "
            "so that nobody can use up all epochs. Kafka has no such bound."
        ),
        tests=("tests/unit/raft/core/test_epoch_allowance.py::test_a_leader_is_not_deposed_by_an_impossible_epoch",),
    ),
    Documented(
        "status keys",
        (
            "DescribeConfigs answers keys kraft.status.* where they are named: what a node tells of its state, in "
            "JSON. Kafka leaves unknown keys out."
        ),
        tests=(
            "tests/unit/handlers/configs/test_status_keys.py::test_a_status_is_returned_only_when_its_key_is_requested",
        ),
    ),
    Documented(
        "patterns of client-metrics subscriptions are RE2's",
        (
            "A subscription whose `match` has a look-around or a back reference is refused: clients choose the text, "
            "and RE2 matches in linear time. Kafka takes any pattern of Java."
        ),
        tests=(
            "tests/unit/common/config/dynamic/test_client_metrics.py"
            "::test_an_illegal_client_pattern_is_refused_in_kafkas_words",
        ),
    ),
    Documented(
        "elections by hand take the best log",
        (
            "An unclean ElectLeaders takes the best of the logs that the controller knows, of all live replicas. Kafka "
            "takes the first live replica of the assignment."
        ),
        tests=(
            "tests/unit/controller/unclean/test_default_policy.py"
            "::test_an_operator_request_during_the_wait_elects_the_best_known_log",
        ),
    ),
)


def reason_for(place: str) -> Difference | None:
    """The deliberate difference that covers this place, if any."""
    return next((each for each in DIFFERENCES if each.covers(place)), None)
