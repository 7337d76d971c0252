"""What members of the quorum ask each other, as far as it leaves the quorum as it is: votes, epochs, fetches,
snapshots, changes of voters."""

from typing import Any

from tests.vectors.case import CONTROLLER, Ask, Step, case

TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\x01"
STRANGER = b"0123456789abcdef"
MOVING = ("leader_epoch", "high_watermark", "log_start_offset", "last_stable_offset")
QUORUM = {"topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}]}
EPOCH = Ask(
    QUORUM,
    api="DescribeQuorum",
    version=2,
    listener=CONTROLLER,
    save={"epoch": "topics.0.partitions.0.leader_epoch"},
    hidden=True,
)
CLUSTER = Ask({}, api="DescribeCluster", version=1, save={"cluster": "cluster_id"}, hidden=True)


def ask(body: dict[str, Any], *, mask: tuple[str, ...] = MOVING) -> tuple[Step, ...]:
    """On a connection of its own, in our cluster unless `body` says otherwise."""
    return (CLUSTER, EPOCH, Ask({"cluster_id": "$cluster", **body}, listener=CONTROLLER, mask=mask))


def topics(topic: str = TOPIC, index: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [{"topic_name": topic, "partitions": [{"partition_index": index, **more}]}]


def vote(**more: Any) -> dict[str, Any]:
    partition = {
        "replica_epoch": 0,
        "replica_id": 9,
        "replica_directory_id": STRANGER,
        "last_offset_epoch": 0,
        "last_offset": 0,
        **more,
    }
    return {"voter_id": 1, "topics": topics(**partition)}


def begin(**more: Any) -> dict[str, Any]:
    return {"voter_id": 1, "topics": topics(**{"leader_id": 9, "leader_epoch": 0, **more})}


def end(**more: Any) -> dict[str, Any]:
    return {"topics": topics(**{"leader_id": 9, "leader_epoch": 0, **more})}


def fetch(topic: str = TOPIC, topic_id: bytes = TOPIC_ID, **more: Any) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": 0,
        "fetch_offset": 0,
        "last_fetched_epoch": 0,
        "partition_max_bytes": 1024,
        **more,
    }
    topics = [{"topic": topic, "topic_id": topic_id, "partitions": [partition]}]
    return {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1024, "topics": topics}


def snapshot(topic: str = TOPIC, **more: Any) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": "$epoch",
        "snapshot_id": {"end_offset": 1 << 40, "epoch": 1},
        "position": 0,
        **more,
    }
    return {"replica_id": -1, "max_bytes": 1024, "topics": [{"name": topic, "partitions": [partition]}]}


LISTENERS = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
STRANGE_VOTER = {"voter_id": 9, "voter_directory_id": STRANGER}

CASES = (
    case("vote-foreign-cluster", "Vote", ask({**vote(), "cluster_id": "another"})),
    case("vote-stale-epoch", "Vote", ask(vote())),
    case("vote-in-this-epoch", "Vote", ask(vote(replica_epoch="$epoch"))),
    case("vote-for-other-voter", "Vote", ask({**vote(replica_epoch="$epoch"), "voter_id": 5}), versions=(1, 2)),
    case("vote-negative-epoch", "Vote", ask(vote(replica_epoch=-1))),
    case("vote-other-topic", "Vote", ask({"voter_id": 1, "topics": topics("nonsense")})),
    case("vote-other-partition", "Vote", ask({"voter_id": 1, "topics": topics(index=1)})),
    case("vote-nothing", "Vote", ask({"voter_id": 1, "topics": []})),
    case("pre-vote-stale-epoch", "Vote", ask(vote(pre_vote=True)), versions=(2, 2)),
    case("begin-foreign-cluster", "BeginQuorumEpoch", ask({**begin(), "cluster_id": "another"})),
    case("begin-stale-epoch", "BeginQuorumEpoch", ask(begin())),
    case("begin-other-topic", "BeginQuorumEpoch", ask({"voter_id": 1, "topics": topics("nonsense")})),
    case("end-foreign-cluster", "EndQuorumEpoch", ask({**end(), "cluster_id": "another"})),
    case("end-stale-epoch", "EndQuorumEpoch", ask(end())),
    case("end-other-topic", "EndQuorumEpoch", ask({"topics": topics("nonsense")})),
    case("fetch-foreign-cluster", "Fetch", ask({**fetch(), "cluster_id": "another"}), versions=(12, 18)),
    case("fetch-stale-epoch", "Fetch", ask(fetch()), versions=(12, 18)),
    case("fetch-epoch-of-the-future", "Fetch", ask(fetch(current_leader_epoch=1 << 20)), versions=(12, 18)),
    case(
        "fetch-beyond",
        "Fetch",
        ask(
            fetch(current_leader_epoch="$epoch", fetch_offset=1 << 40, last_fetched_epoch=0),
            mask=(*MOVING, "diverging_epoch"),
        ),
    ),
    case("fetch-other-topic", "Fetch", ask(fetch("nonsense", STRANGER)), versions=(12, 18)),
    case("fetch-other-partition", "Fetch", ask(fetch(partition=3)), versions=(12, 18)),
    case("snapshot-foreign-cluster", "FetchSnapshot", ask({**snapshot(), "cluster_id": "another"})),
    case("snapshot-stale-epoch", "FetchSnapshot", ask(snapshot(current_leader_epoch=0))),
    case("snapshot-unknown", "FetchSnapshot", ask(snapshot())),
    case("snapshot-other-topic", "FetchSnapshot", ask(snapshot("nonsense"))),
    case(
        "add-foreign-cluster",
        "AddRaftVoter",
        ask({**STRANGE_VOTER, "cluster_id": "another", "timeout_ms": 1000, "listeners": LISTENERS}),
    ),
    case(
        "add-voter-there-is",
        "AddRaftVoter",
        ask({"voter_id": 1, "voter_directory_id": STRANGER, "timeout_ms": 1000, "listeners": LISTENERS}),
    ),
    case("add-without-listeners", "AddRaftVoter", ask({**STRANGE_VOTER, "timeout_ms": 1000, "listeners": []})),
    case("add-without-directory", "AddRaftVoter", ask({"voter_id": 9, "timeout_ms": 1000, "listeners": LISTENERS})),
    case(
        "add-negative",
        "AddRaftVoter",
        ask({**STRANGE_VOTER, "voter_id": -1, "timeout_ms": 1000, "listeners": LISTENERS}),
    ),
    case("remove-without-directory", "RemoveRaftVoter", ask({"voter_id": 9})),
    case("remove-negative", "RemoveRaftVoter", ask({**STRANGE_VOTER, "voter_id": -1})),
    case("remove-foreign-cluster", "RemoveRaftVoter", ask({**STRANGE_VOTER, "cluster_id": "another"})),
    case("remove-unknown", "RemoveRaftVoter", ask(STRANGE_VOTER)),
    case("remove-other-directory", "RemoveRaftVoter", ask({"voter_id": 1, "voter_directory_id": STRANGER})),
    case(
        "update-foreign-cluster",
        "UpdateRaftVoter",
        ask({**STRANGE_VOTER, "cluster_id": "another", "listeners": LISTENERS, "kraft_version_feature": {}}),
    ),
    case(
        "update-unknown",
        "UpdateRaftVoter",
        ask(
            {
                **STRANGE_VOTER,
                "current_leader_epoch": "$epoch",
                "listeners": LISTENERS,
                "kraft_version_feature": {"max_supported_version": 1},
            }
        ),
    ),
    case(
        "update-without-directory",
        "UpdateRaftVoter",
        ask(
            {
                "voter_id": 9,
                "current_leader_epoch": "$epoch",
                "listeners": LISTENERS,
                "kraft_version_feature": {"max_supported_version": 1},
            }
        ),
    ),
    case(
        "update-without-listeners",
        "UpdateRaftVoter",
        ask(
            {
                **STRANGE_VOTER,
                "current_leader_epoch": "$epoch",
                "listeners": [],
                "kraft_version_feature": {"max_supported_version": 1},
            }
        ),
    ),
    case(
        "update-stale-epoch",
        "UpdateRaftVoter",
        ask({**STRANGE_VOTER, "current_leader_epoch": 0, "listeners": LISTENERS, "kraft_version_feature": {}}),
    ),
)
