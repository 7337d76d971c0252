"""What administrators may ask a controller directly (KIP-919), and brokers on behalf of voters: the same requests by
the other door."""

from tests.vectors.case import CONTROLLER, Ask, Settle, case, create
from tests.vectors.cases.configs import BROKER, INCREMENTAL, SET, TOPIC, change, describe, replace
from tests.vectors.cases.placement import list_of, reassign
from tests.vectors.cases.quorum import CLUSTER, LISTENERS, STRANGE_VOTER
from tests.vectors.cases.quotas import ALTER, PRODUCER, alter, entity, op
from tests.vectors.cases.topics import deleting, growing


def there(ask: Ask) -> Ask:
    """The same on the controller's listener."""
    return Ask(ask.body, api=ask.api, version=ask.version, mask=ask.mask, listener=CONTROLLER)


CASES = (
    case("direct-delete", "DeleteTopics", create(), there(deleting("$topic")), Settle(gone=True)),
    case("direct-delete-unknown", "DeleteTopics", there(deleting("$topic"))),
    case("direct-delete-bad-names", "DeleteTopics", there(deleting("", "a/b"))),
    case("direct-grow", "CreatePartitions", create(), there(Ask(growing(3)))),
    case("direct-grow-less", "CreatePartitions", create(partitions=2), there(Ask(growing(1)))),
    case("direct-grow-unknown", "CreatePartitions", there(Ask(growing(3)))),
    case("direct-describe-topic", "DescribeConfigs", create(), there(describe(TOPIC, "$topic", ["retention.ms"]))),
    case(
        "direct-describe-own",
        "DescribeConfigs",
        there(describe(BROKER, "1", ["num.partitions"], include_synonyms=True)),
    ),
    case("direct-describe-other", "DescribeConfigs", there(describe(BROKER, "7"))),
    case("direct-replace", "AlterConfigs", create(), there(replace(TOPIC, "$topic", segment_ms="77777"))),
    case("direct-replace-bad-value", "AlterConfigs", create(), there(replace(TOPIC, "$topic", retention_ms="soon"))),
    case("direct-set", INCREMENTAL, create(), there(change(TOPIC, "$topic", ("retention.ms", SET, "1234567")))),
    case("direct-set-on-unknown-topic", INCREMENTAL, there(change(TOPIC, "$topic", ("retention.ms", SET, "1")))),
    case(
        "direct-quota", ALTER, *(there(alter(entity(client_id="$group"), op(PRODUCER, rate))) for rate in (1e6, None))
    ),
    case("direct-quota-unknown", ALTER, there(alter(entity(client_id="$group"), op("no_such_key", 1.0)))),
    case("direct-reassign-to-same", "AlterPartitionReassignments", create(), there(reassign([1]))),
    case("direct-reassign-unknown-topic", "AlterPartitionReassignments", there(reassign([1]))),
    case("direct-list-reassignments", "ListPartitionReassignments", create(), there(list_of(0))),
    case("direct-describe-credentials", "DescribeUserScramCredentials", there(Ask({"users": None}))),
    case(
        "direct-describe-credentials-of-nobody",
        "DescribeUserScramCredentials",
        there(Ask({"users": [{"name": "$group"}, {"name": "$group"}, {"name": "nobody"}]})),
    ),
    case("direct-describe-tokens", "DescribeDelegationToken", there(Ask({"owners": None})), there(Ask({"owners": []}))),
    case(
        "direct-features",
        "UpdateFeatures",
        there(
            Ask(
                {
                    "feature_updates": [{"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}],
                    "validate_only": True,
                }
            )
        ),
    ),
    case(
        "add-voter-by-broker",
        "AddRaftVoter",
        CLUSTER,
        Ask({"cluster_id": "another", **STRANGE_VOTER, "timeout_ms": 1000, "listeners": LISTENERS}),
    ),
    case(
        "add-voter-there-is-by-broker",
        "AddRaftVoter",
        CLUSTER,
        Ask({"cluster_id": "$cluster", "voter_id": 1, "timeout_ms": 1000, "listeners": LISTENERS}),
    ),
    case("remove-voter-by-broker", "RemoveRaftVoter", CLUSTER, Ask({"cluster_id": "$cluster", **STRANGE_VOTER})),
    case(
        "remove-voter-elsewhere-by-broker", "RemoveRaftVoter", CLUSTER, Ask({"cluster_id": "another", **STRANGE_VOTER})
    ),
)
