"""What nodes and administrators ask the controller: quorum, features, log directories, registrations, heartbeats,
producer ids, envelopes."""

from tests.vectors.case import CONTROLLER, Ask, case, create, produced
from tests.vectors.plain import Batch

QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
# Offsets of the metadata log and the times of its fetches differ; so do its leader's epoch and what it has committed.
MOVING = ("high_watermark", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp", "leader_epoch")
LISTENERS = [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 1, "security_protocol": 0}]
FEATURES = [{"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}]
BROKER_7 = {
    "broker_id": 7,
    "cluster_id": "another",
    "incarnation_id": b"0123456789abcdef",
    "listeners": LISTENERS,
    "features": FEATURES,
    "log_dirs": [b"fedcba9876543210"],
}


def features(*updates: tuple[str, int, int], **more: object) -> Ask:
    rows = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in updates]
    return Ask({"feature_updates": rows, "validate_only": True, **more})


def at_once(*updates: tuple[str, int, bool]) -> Ask:
    """Version 0 knows no trial: only what must be refused, or changes nothing."""
    return Ask(
        {
            "feature_updates": [
                {"feature": name, "max_version_level": level, "allow_downgrade": down} for name, level, down in updates
            ]
        }
    )


CASES = (
    case("quorum", "DescribeQuorum", Ask(QUORUM, mask=MOVING)),
    case("quorum-of-controller", "DescribeQuorum", Ask(QUORUM, mask=MOVING, listener=CONTROLLER)),
    case(
        "quorum-other-topic",
        "DescribeQuorum",
        Ask({"topics": [{"topic_name": "nonsense", "partitions": [{"partition_index": 0}]}]}, mask=MOVING),
    ),
    case(
        "quorum-other-partition",
        "DescribeQuorum",
        Ask({"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 1}]}]}, mask=MOVING),
    ),
    case("quorum-nothing", "DescribeQuorum", Ask({"topics": []}, mask=MOVING)),
    case("features-unknown", "UpdateFeatures", features(("no.such.feature", 1, 1)), versions=(1, 2)),
    case("features-metadata-same", "UpdateFeatures", features(("metadata.version", 30, 1)), versions=(1, 2)),
    case("features-metadata-too-high", "UpdateFeatures", features(("metadata.version", 99, 1)), versions=(1, 2)),
    case("features-metadata-down", "UpdateFeatures", features(("metadata.version", 29, 1)), versions=(1, 2)),
    case("features-metadata-down-safely", "UpdateFeatures", features(("metadata.version", 29, 2)), versions=(1, 2)),
    case("features-metadata-down-unsafely", "UpdateFeatures", features(("metadata.version", 29, 3)), versions=(1, 2)),
    case("features-metadata-zero", "UpdateFeatures", features(("metadata.version", 0, 2)), versions=(1, 2)),
    case("features-negative", "UpdateFeatures", features(("metadata.version", -1, 1)), versions=(1, 2)),
    case("features-bad-kind", "UpdateFeatures", features(("metadata.version", 30, 9)), versions=(1, 2)),
    case("features-nothing", "UpdateFeatures", features(), versions=(1, 2)),
    case("features-quorum-same", "UpdateFeatures", features(("kraft.version", 1, 1)), versions=(1, 2)),
    case("features-quorum-too-high", "UpdateFeatures", features(("kraft.version", 2, 1)), versions=(1, 2)),
    case("features-quorum-down", "UpdateFeatures", features(("kraft.version", 0, 2)), versions=(1, 2)),
    case(
        "features-same-twice",
        "UpdateFeatures",
        features(("metadata.version", 30, 1), ("metadata.version", 30, 1)),
        versions=(1, 2),
    ),
    case(
        "features-good-and-bad",
        "UpdateFeatures",
        features(("metadata.version", 30, 1), ("no.such.feature", 1, 1)),
        versions=(1, 2),
    ),
    case("features-unknown-at-once", "UpdateFeatures", at_once(("no.such.feature", 1, False)), versions=(0, 0)),
    case("features-too-high-at-once", "UpdateFeatures", at_once(("metadata.version", 99, False)), versions=(0, 0)),
    case("features-down-at-once", "UpdateFeatures", at_once(("metadata.version", 29, False)), versions=(0, 0)),
    case("features-same-at-once", "UpdateFeatures", at_once(("metadata.version", 30, False)), versions=(0, 0)),
    case("features-nothing-at-once", "UpdateFeatures", at_once(), versions=(0, 0)),
    case(
        "features-at-controller",
        "UpdateFeatures",
        Ask(features(("metadata.version", 30, 1)).body, listener=CONTROLLER),
        versions=(1, 2),
    ),
    case(
        "log-dirs-of-topic",
        "DescribeLogDirs",
        create(),
        produced(Batch(b"x" * 100)),
        Ask({"topics": [{"topic": "$topic", "partitions": [0]}]}),
    ),
    case("log-dirs-unknown-topic", "DescribeLogDirs", Ask({"topics": [{"topic": "$topic", "partitions": [0]}]})),
    case(
        "log-dirs-unknown-partition",
        "DescribeLogDirs",
        create(),
        Ask({"topics": [{"topic": "$topic", "partitions": [0, 7]}]}),
    ),
    case("log-dirs-twice", "DescribeLogDirs", create(), Ask({"topics": [{"topic": "$topic", "partitions": [0, 0]}]})),
    case(
        "log-dirs-of-empty-log", "DescribeLogDirs", create(), Ask({"topics": [{"topic": "$topic", "partitions": [0]}]})
    ),
    case("log-dirs-no-topics", "DescribeLogDirs", Ask({"topics": []})),
    case("register-foreign-broker", "BrokerRegistration", Ask(BROKER_7, listener=CONTROLLER)),
    case("register-broker-at-broker", "BrokerRegistration", Ask(BROKER_7)),
    case(
        "heartbeat-unknown-broker",
        "BrokerHeartbeat",
        Ask(
            {
                "broker_id": 7,
                "broker_epoch": 1,
                "current_metadata_offset": 0,
                "want_fence": False,
                "want_shut_down": False,
            },
            listener=CONTROLLER,
        ),
    ),
    case(
        "heartbeat-stale-epoch",
        "BrokerHeartbeat",
        Ask(
            {
                "broker_id": 1,
                "broker_epoch": 0,
                "current_metadata_offset": 0,
                "want_fence": False,
                "want_shut_down": False,
            },
            listener=CONTROLLER,
        ),
    ),
    case(
        "register-unknown-controller",
        "ControllerRegistration",
        Ask(
            {"controller_id": 9, "incarnation_id": b"0123456789abcdef", "listeners": [], "features": []},
            listener=CONTROLLER,
        ),
    ),
    case(
        "producer-ids-unknown-broker",
        "AllocateProducerIds",
        Ask({"broker_id": 7, "broker_epoch": 1}, listener=CONTROLLER),
    ),
    case(
        "producer-ids-stale-epoch", "AllocateProducerIds", Ask({"broker_id": 1, "broker_epoch": 0}, listener=CONTROLLER)
    ),
    case("unregister-unknown", "UnregisterBroker", Ask({"broker_id": 77})),
    case("unregister-negative", "UnregisterBroker", Ask({"broker_id": -1})),
    case("unregister-controller-unknown", "UnregisterController", Ask({"controller_id": 77})),
    case("unregister-controller-itself", "UnregisterController", Ask({"controller_id": 1})),
    case(
        "unregister-controller-at-controller",
        "UnregisterController",
        Ask({"controller_id": -1}, listener=CONTROLLER),
        Ask({"controller_id": 1}, listener=CONTROLLER),
    ),
    case(
        "envelope-of-nonsense",
        "Envelope",
        Ask(
            {"request_data": b"nonsense", "request_principal": b"", "client_host_address": b"\x7f\x00\x00\x01"},
            listener=CONTROLLER,
        ),
    ),
    case(
        "envelope-at-broker",
        "Envelope",
        Ask({"request_data": b"nonsense", "request_principal": b"", "client_host_address": b"\x7f\x00\x00\x01"}),
    ),
    case(
        "create-topics-at-controller",
        "CreateTopics",
        Ask(
            {"topics": [{"name": "$topic", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 10000},
            listener=CONTROLLER,
        ),
    ),
)
