"""The API keys, and the protocol's facts about each: versions, header versions, listeners, message classes.

The table comes from the schemas. The registry of the handlers decides which APIs a node serves.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from typing import NamedTuple

from kraft.common.errors import ProtocolError
from kraft.protocol.messages.table import APIS
from kraft.protocol.schema import Message, VersionRange


class ApiKey:
    """The API keys under Kafka's names. Keys 4 to 7 (ZooKeeper's control requests) are retired."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


class Api(NamedTuple):
    """The schemas' facts about one API."""

    name: str
    versions_min: int
    versions_max: int
    flexible_from: int | None
    listeners: tuple[str, ...]
    highest_is_unstable: bool


_APIS = {key: Api(*row) for key, row in APIS.items()}
_NAMES = {key: name for name, key in vars(ApiKey).items() if not name.startswith("_")}
_MODULE_OF_NAME = {key: name.lower() for key, name in _NAMES.items()}

# Only other nodes of the cluster may send these: they need ClusterAction on the cluster.
CLUSTER_ACTIONS = frozenset(
    (
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_PARTITION,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    )
)
# A broker passes these on to the active controller, inside an Envelope.
FORWARDABLE = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
)


def api_of(key: int) -> Api:
    """Return the table's entry for a key. Raises ProtocolError for an unknown key."""
    try:
        return _APIS[key]
    except KeyError:
        raise ProtocolError(f"API key {key} is not known") from None


def known_keys() -> tuple[int, ...]:
    """Return all keys, ascending."""
    return tuple(sorted(_APIS))


def name_of(key: int) -> str:
    """Return Kafka's name of an API for messages, such as `ListOffsets`; `Api<key>` for a key that this release does
    not know."""
    return _APIS[key].name if key in _APIS else f"Api{key}"


def valid_versions(key: int) -> VersionRange:
    """Return the lowest and highest version that the schemas define. Raises ProtocolError for an unknown key."""
    api = api_of(key)
    return api.versions_min, api.versions_max


def flexible_from(key: int) -> int | None:
    """Return the first flexible version (KIP-482), or None. Raises ProtocolError for an unknown key."""
    return api_of(key).flexible_from


def is_flexible(key: int, version: int) -> bool:
    first = flexible_from(key)
    return first is not None and version >= first


HEADERS_KEPT = 4096
"""The number of cached header versions. Their keys, pairs of API key and version, are chosen by clients."""


@lru_cache(HEADERS_KEPT)
def request_header_version(key: int, version: int) -> int:
    """Return the version of the request header: 2 (with a tag section) for flexible versions, else 1."""
    return 2 if is_flexible(key, version) else 1


@lru_cache(HEADERS_KEPT)
def response_header_version(key: int, version: int) -> int:
    """Return the version of the response header: 1 (with a tag section) for flexible versions, else 0. It is always 0
    for ApiVersions, because a client reads that response before it knows which versions the server supports (KIP-511).
    """
    return 1 if key != ApiKey.API_VERSIONS and is_flexible(key, version) else 0


def request_class(key: int) -> type[Message]:
    """Return the class of the request's body. Its module is imported on first use. Raises ProtocolError for an unknown
    key."""
    return _message_class(key, "Request")


def response_class(key: int) -> type[Message]:
    """Return the class of the response's body. Its module is imported on first use. Raises ProtocolError for an unknown
    key."""
    return _message_class(key, "Response")


@cache
def _message_class(key: int, kind: str) -> type[Message]:
    name = api_of(key).name + kind
    found: type[Message] = getattr(
        import_module(f"kraft.protocol.messages.{_MODULE_OF_NAME[key]}_{kind.lower()}"), name
    )
    return found
