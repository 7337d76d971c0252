"""The life of a broker as the controller sees it: a broker 7 registers, beats, gets producer ids and is taken out
again. It lives in this script alone."""

from typing import Any

from tests.vectors.case import CONTROLLER, Ask, Step, case
from tests.vectors.cases.controller import BROKER_7

CLUSTER = Ask({}, api="DescribeCluster", version=1, save={"cluster": "cluster_id"}, hidden=True)
GONE = Ask({"broker_id": 7}, api="UnregisterBroker", version=0, hidden=True)
METADATA = {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}
QUORUM = {"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1}
ELIGIBLE = {"name": "eligible.leader.replicas.version", "min_supported_version": 0, "max_supported_version": 1}
OTHER = b"fedcba9876543210"


def register(**more: Any) -> Ask:
    return Ask(
        {**BROKER_7, "cluster_id": "$cluster", "features": [METADATA, QUORUM, ELIGIBLE], **more}, listener=CONTROLLER
    )


REGISTERED = (
    CLUSTER,
    Ask(
        register().body,
        api="BrokerRegistration",
        version=4,
        listener=CONTROLLER,
        save={"epoch": "broker_epoch"},
        hidden=True,
    ),
)


def beat(offset: int = 0, *, fence: bool = False, down: bool = False, epoch: Any = "$epoch", **more: Any) -> Ask:
    body = {
        "broker_id": 7,
        "broker_epoch": epoch,
        "current_metadata_offset": offset,
        "want_fence": fence,
        "want_shut_down": down,
        **more,
    }
    return Ask(body, listener=CONTROLLER)


def refused(name: str, versions: tuple[int, int] | None = None, **more: Any) -> Any:
    """Whatever comes of it, broker 7 is gone after."""
    return case(name, "BrokerRegistration", CLUSTER, register(**more), GONE, versions=versions)


CAUGHT_UP = 1 << 40
FUTURE: tuple[Step, ...] = (
    Ask(beat(CAUGHT_UP).body, api="BrokerHeartbeat", version=1, listener=CONTROLLER, hidden=True),
)

CASES = (
    case("register", "BrokerRegistration", CLUSTER, register(), GONE),
    case("register-again", "BrokerRegistration", CLUSTER, register(), register(), GONE),
    case("register-next-incarnation", "BrokerRegistration", REGISTERED, register(incarnation_id=OTHER), GONE),
    refused("register-with-rack", rack="somewhere"),
    refused("register-without-listeners", listeners=[]),
    refused("register-without-features", features=[]),
    refused("register-only-older-metadata", features=[{**METADATA, "max_supported_version": 29}, QUORUM, ELIGIBLE]),
    refused(
        "register-feature-backwards",
        features=[{**METADATA, "min_supported_version": 31, "max_supported_version": 30}, QUORUM, ELIGIBLE],
    ),
    refused("register-without-eligible-replicas-feature", features=[METADATA, QUORUM]),
    refused("register-without-quorum-feature", features=[METADATA, ELIGIBLE]),
    refused(
        "register-unknown-feature",
        features=[
            METADATA,
            QUORUM,
            ELIGIBLE,
            {"name": "no.such", "min_supported_version": 0, "max_supported_version": 1},
        ],
    ),
    refused("register-without-directories", versions=(2, 4), log_dirs=[]),
    refused("register-directory-twice", versions=(2, 4), log_dirs=[OTHER, OTHER]),
    refused("register-reserved-directory", versions=(2, 4), log_dirs=[bytes(15) + b"\x01"]),
    refused("register-from-zookeeper", versions=(1, 4), is_migrating_zk_broker=True),
    refused(
        "register-listener-of-unknown-protocol",
        listeners=[{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 1, "security_protocol": 77}],
    ),
    case("heartbeat-fenced", "BrokerHeartbeat", REGISTERED, beat(fence=True), GONE),
    case("heartbeat-behind", "BrokerHeartbeat", REGISTERED, beat(), GONE),
    case(
        "heartbeat-caught-up",
        "BrokerHeartbeat",
        REGISTERED,
        beat(CAUGHT_UP),
        beat(CAUGHT_UP),
        beat(CAUGHT_UP, fence=True),
        GONE,
    ),
    case("heartbeat-shutting-down", "BrokerHeartbeat", REGISTERED, FUTURE, beat(CAUGHT_UP, down=True), GONE),
    case("heartbeat-shutting-down-fenced", "BrokerHeartbeat", REGISTERED, beat(down=True), GONE),
    case("heartbeat-old-epoch", "BrokerHeartbeat", REGISTERED, beat(epoch=1), GONE),
    case(
        "heartbeat-unknown-directory",
        "BrokerHeartbeat",
        REGISTERED,
        beat(fence=True, offline_log_dirs=[OTHER]),
        GONE,
        versions=(1, 2),
    ),
    case(
        "heartbeat-all-directories-offline",
        "BrokerHeartbeat",
        REGISTERED,
        beat(fence=True, offline_log_dirs=BROKER_7["log_dirs"]),
        GONE,
        versions=(1, 2),
    ),
    case(
        "heartbeat-cordoned",
        "BrokerHeartbeat",
        REGISTERED,
        beat(fence=True, cordoned_log_dirs=BROKER_7["log_dirs"]),
        GONE,
        versions=(2, 2),
    ),
    case("heartbeat-after-leaving", "BrokerHeartbeat", REGISTERED, GONE, beat()),
    case(
        "producer-ids",
        "AllocateProducerIds",
        REGISTERED,
        Ask({"broker_id": 7, "broker_epoch": "$epoch"}, listener=CONTROLLER),
        GONE,
    ),
    case("unregister", "UnregisterBroker", REGISTERED, Ask({"broker_id": 7}), Ask({"broker_id": 7})),
    case("unregister-at-controller", "UnregisterBroker", REGISTERED, Ask({"broker_id": 7}, listener=CONTROLLER)),
    case(
        "describe-fenced",
        "DescribeCluster",
        REGISTERED,
        Ask({"include_fenced_brokers": True}, pause_s=0.5),
        GONE,
        versions=(2, 2),
    ),
)
