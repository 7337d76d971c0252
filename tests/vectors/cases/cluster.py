"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator, and requests that are no
requests."""

from tests.vectors.case import CONTROLLER, Ask, case, create

SOFTWARE = {"client_software_name": "vectors", "client_software_version": "1.0"}
EPOCH = ("finalized_features_epoch",)

CASES = (
    case("metadata-all-of-nothing", "Metadata", Ask({"topics": None}), versions=(1, 13)),
    case("metadata-no-topics", "Metadata", Ask({"topics": []}), versions=(1, 13)),
    case("api-versions", "ApiVersions", Ask(SOFTWARE, mask=EPOCH)),
    case("api-versions-controller", "ApiVersions", Ask(SOFTWARE, mask=EPOCH, listener=CONTROLLER)),
    case(
        "api-versions-bad-name",
        "ApiVersions",
        Ask({"client_software_name": "not good!", "client_software_version": "1"}, mask=("api_keys",)),
        versions=(3, 4),
    ),
    case(
        "api-versions-empty-name",
        "ApiVersions",
        Ask({"client_software_name": "", "client_software_version": ""}, mask=("api_keys",)),
        versions=(3, 4),
    ),
    case(
        "api-versions-of-the-future",
        "ApiVersions",
        Ask(b"\x00", version=99, flexible=True, answered=0),
        versions=(0, 0),
    ),
    case(
        "metadata-unknown",
        "Metadata",
        Ask({"topics": [{"name": "$topic"}], "allow_auto_topic_creation": False}),
        versions=(4, 13),
    ),
    case(
        "metadata-unknown-id",
        "Metadata",
        Ask({"topics": [{"topic_id": b"0123456789abcdef", "name": None}], "allow_auto_topic_creation": False}),
        versions=(10, 13),
    ),
    case(
        "metadata-zero-id",
        "Metadata",
        Ask({"topics": [{"topic_id": bytes(16), "name": None}], "allow_auto_topic_creation": False}),
        versions=(10, 13),
    ),
    case(
        "metadata-id-and-name",
        "Metadata",
        create(),
        Ask({"topics": [{"topic_id": "$topic.id", "name": "$topic"}], "allow_auto_topic_creation": False}),
        versions=(10, 13),
    ),
    case(
        "metadata-by-id",
        "Metadata",
        create(),
        Ask({"topics": [{"topic_id": "$topic.id", "name": None}], "allow_auto_topic_creation": False}),
        versions=(12, 13),
    ),
    case(
        "metadata-bad-name",
        "Metadata",
        Ask({"topics": [{"name": "no/slash"}, {"name": ""}, {"name": "."}, {"name": "x" * 250}]}),
    ),
    case("metadata-twice", "Metadata", create(), Ask({"topics": [{"name": "$topic"}, {"name": "$topic"}]})),
    case("metadata-two-partitions", "Metadata", create(partitions=2), Ask({"topics": [{"name": "$topic"}]})),
    case(
        "metadata-authorized",
        "Metadata",
        create(),
        Ask(
            {
                "topics": [{"name": "$topic"}],
                "include_topic_authorized_operations": True,
                "include_cluster_authorized_operations": True,
            }
        ),
        versions=(8, 13),
    ),
    case("metadata-creates", "Metadata", Ask({"topics": [{"name": "$topic"}], "allow_auto_topic_creation": True})),
    case("describe-cluster", "DescribeCluster", Ask({})),
    case("describe-cluster-authorized", "DescribeCluster", Ask({"include_cluster_authorized_operations": True})),
    case("describe-cluster-controllers", "DescribeCluster", Ask({"endpoint_type": 2}), versions=(1, 2)),
    case(
        "describe-cluster-controllers-there",
        "DescribeCluster",
        Ask({"endpoint_type": 2}, listener=CONTROLLER),
        versions=(1, 2),
    ),
    case("describe-cluster-bad-endpoint", "DescribeCluster", Ask({"endpoint_type": 9}), versions=(1, 2)),
    case("describe-cluster-fenced", "DescribeCluster", Ask({"include_fenced_brokers": True}), versions=(2, 2)),
    case("topic-partitions", "DescribeTopicPartitions", create(partitions=3), Ask({"topics": [{"name": "$topic"}]})),
    case(
        "topic-partitions-limit",
        "DescribeTopicPartitions",
        create(partitions=3),
        Ask({"topics": [{"name": "$topic"}], "response_partition_limit": 2}),
    ),
    case(
        "topic-partitions-cursor",
        "DescribeTopicPartitions",
        create(partitions=3),
        Ask({"topics": [{"name": "$topic"}], "cursor": {"topic_name": "$topic", "partition_index": 1}}),
        Ask({"topics": [{"name": "$topic"}], "cursor": {"topic_name": "$topic", "partition_index": 3}}),
    ),
    case(
        "topic-partitions-negative-cursor",
        "DescribeTopicPartitions",
        create(),
        Ask({"topics": [{"name": "$topic"}], "cursor": {"topic_name": "$topic", "partition_index": -1}}),
    ),
    case("topic-partitions-unknown", "DescribeTopicPartitions", Ask({"topics": [{"name": "$topic"}]})),
    case("topic-partitions-bad-name", "DescribeTopicPartitions", Ask({"topics": [{"name": "no/slash"}]})),
    case(
        "topic-partitions-zero-limit",
        "DescribeTopicPartitions",
        create(),
        Ask({"topics": [{"name": "$topic"}], "response_partition_limit": 0}),
    ),
    case(
        "coordinator-of-group", "FindCoordinator", Ask({"key": "$group", "key_type": 0, "coordinator_keys": ["$group"]})
    ),
    case(
        "coordinators-of-two",
        "FindCoordinator",
        Ask({"key_type": 0, "coordinator_keys": ["$group", "$group2"]}),
        versions=(4, 6),
    ),
    case("coordinators-of-none", "FindCoordinator", Ask({"key_type": 0, "coordinator_keys": []}), versions=(4, 6)),
    case("coordinator-of-empty-group", "FindCoordinator", Ask({"key": "", "key_type": 0, "coordinator_keys": [""]})),
    case(
        "coordinator-bad-type",
        "FindCoordinator",
        Ask({"key": "$group", "key_type": 9, "coordinator_keys": ["$group"]}),
        versions=(1, 6),
    ),
    case("describe-cluster-brokers-at-controller", "DescribeCluster", Ask({"endpoint_type": 1}, listener=CONTROLLER)),
    case(
        "describe-cluster-bad-endpoint-there",
        "DescribeCluster",
        Ask({"endpoint_type": 9}, listener=CONTROLLER),
        versions=(1, 2),
    ),
    case("version-of-the-future", "Metadata", Ask(b"\x00" * 8, version=99, flexible=True), versions=(13, 13)),
    case("version-of-the-past", "Produce", Ask(b"\x00" * 10, version=0, flexible=False), versions=(3, 3)),
    case("not-for-brokers", "Metadata", Ask(b"\x00" * 8, api="Vote", version=0), versions=(13, 13)),
    case(
        "not-for-controllers",
        "Metadata",
        Ask({"topics": []}, listener=CONTROLLER),
        Ask({"topics": []}, listener=CONTROLLER),
        versions=(13, 13),
    ),
    case("truncated-body", "Metadata", Ask(b"\x00\x00")),
    case("trailing-bytes", "ListGroups", Ask(b"\x00" * 40)),
    case("huge-array", "Metadata", Ask(b"\x7f\xff\xff\xff")),
)
