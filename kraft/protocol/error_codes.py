"""Kafka's error codes, as of Apache Kafka 4.3: names and retriability are the protocol's, the sentences are ours.

Retriable means that the client may send the same request again, perhaps after refreshing its metadata, and expect it to succeed.
"""

from __future__ import annotations


class ErrorCode:
    """Each code under Kafka's name."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

_MESSAGES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "An unexpected fault in the server.",
    ErrorCode.NONE: "No error.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset lies outside the log: before its start or past its end.",
    ErrorCode.CORRUPT_MESSAGE: "The records are corrupt: wrong checksum, wrong size, or a missing key in a compacted topic.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker does not host the topic or partition.",
    ErrorCode.INVALID_FETCH_SIZE: "The fetch size is not valid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment; an election is under way.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker is not the leader of the partition, or not even a replica of it.",
    ErrorCode.REQUEST_TIMED_OUT: "The request took longer than its timeout.",
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker cannot be reached.",
    ErrorCode.REPLICA_NOT_AVAILABLE: "The replica is not available on this broker.",
    ErrorCode.MESSAGE_TOO_LARGE: "A record or batch is larger than the server accepts.",
    ErrorCode.STALE_CONTROLLER_EPOCH: "The request comes from a controller of an older epoch.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata that comes with a committed offset is too long.",
    ErrorCode.NETWORK_EXCEPTION: "The connection ended before the response arrived.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still loading its state.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This broker is not the coordinator for the group, transaction or share partition.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not valid, or the topic may not be used so.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The batch is larger than a log segment may be.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "The partition has fewer in-sync replicas than min.insync.replicas asks for; nothing was written.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The records were written, but by then fewer replicas than min.insync.replicas were in sync.",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1.",
    ErrorCode.ILLEGAL_GENERATION: "The generation of the group is not the current one.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The member shares no protocol with the group, or named none.",
    ErrorCode.INVALID_GROUP_ID: "The group id is not valid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator knows no such member.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout lies outside the range from group.min.session.timeout.ms to group.max.session.timeout.ms.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing; the member has to rejoin.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The offset commit is too large for one record.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not allowed on this topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not allowed on this group.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not allowed on the cluster.",
    ErrorCode.INVALID_TIMESTAMP: "A timestamp is further from the broker's clock than the topic allows.",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The SASL mechanism is not enabled.",
    ErrorCode.ILLEGAL_SASL_STATE: "The request does not fit the state of the SASL exchange.",
    ErrorCode.UNSUPPORTED_VERSION: "The server does not serve this version of the API.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is not valid.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below 1 or above the number of usable brokers.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The assignment of replicas is not valid.",
    ErrorCode.INVALID_CONFIG: "A configuration key or value is not valid.",
    ErrorCode.NOT_CONTROLLER: "This node is not the active controller.",
    ErrorCode.INVALID_REQUEST: "The request is malformed or contradicts itself.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The stored message format does not support the request.",
    ErrorCode.POLICY_VIOLATION: "A policy of this cluster forbids it.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The producer's sequence number leaves a gap.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The producer's sequence number was used before, by records no longer remembered.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the current one.",
    ErrorCode.INVALID_TXN_STATE: "The transaction is not in a state that permits this.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id does not belong to the transactional id.",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is above transaction.max.timeout.ms.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Another operation on the same transaction is still under way.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The transaction coordinator that wrote the marker has been replaced.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not allowed on this transactional id.",
    ErrorCode.SECURITY_DISABLED: "Security is not enabled on this cluster.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "Not attempted, because another part of the same request failed.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The disk that holds the log failed.",
    ErrorCode.LOG_DIR_NOT_FOUND: "The broker has no such log directory.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "Authentication failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "Nothing is known of this producer id; its records may have been deleted.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The partition is being reassigned.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "There is no such delegation token.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The principal is neither owner nor renewer of the token.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens cannot be requested over this kind of connection.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Not allowed on this delegation token.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "The type of the principal is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "There is no such fetch session.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The epoch of the fetch session is not the next one.",
    ErrorCode.LISTENER_NOT_FOUND: "The leader has no listener of the name this request came in by.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Deletion of topics is disabled.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch of the request is older than the broker's.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch of the request is newer than the broker's.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The client does not support the compression of this partition.",
    ErrorCode.STALE_BROKER_EPOCH: "The broker has registered again since, under a newer epoch.",
    ErrorCode.OFFSET_NOT_AVAILABLE: "The new leader does not know the high watermark well enough yet.",
    ErrorCode.MEMBER_ID_REQUIRED: "The member must join again with the id it was given.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred replica cannot lead now.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may.",
    ErrorCode.FENCED_INSTANCE_ID: "Another consumer has taken over this group.instance.id.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica that may lead is available.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition needs no election.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "The partition is not being reassigned.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic, so its offsets stay.",
    ErrorCode.INVALID_RECORD: "A record breaks a rule of the broker or the topic.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "Offsets of a transaction that has not ended are pending.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "A quota is exhausted for now.",
    ErrorCode.PRODUCER_FENCED: "A newer producer with the same transactional id has taken over.",
    ErrorCode.RESOURCE_NOT_FOUND: "The request names something that does not exist.",
    ErrorCode.DUPLICATE_RESOURCE: "The request names the same thing twice.",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential does not meet the requirements.",
    ErrorCode.INCONSISTENT_VOTER_SET: "Sender or receiver is not a voter that the other expects.",
    ErrorCode.INVALID_UPDATE_VERSION: "The feature level is not valid.",
    ErrorCode.FEATURE_UPDATE_FAILED: "The features could not be updated.",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The principal in a forwarded request cannot be read.",
    ErrorCode.SNAPSHOT_NOT_FOUND: "There is no such snapshot.",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position lies outside the snapshot.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This broker does not know the topic id.",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "Another live broker is registered under this id.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "No broker is registered under this id.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id of the request is not that of the log.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id of the request is not that of this cluster.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "There is no such transactional id.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session mixes topic names and topic ids.",
    ErrorCode.INELIGIBLE_REPLICA: "The proposed in-sync replicas include one that may not be in sync.",
    ErrorCode.NEW_LEADER_ELECTED: "The change was made, and led to the election of a new leader.",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The records at this offset are in tiered storage only.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member's epoch has been fenced; it must give up its partitions and join again.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "The instance id still belongs to another member, which must leave first.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The assignor, or its version, is not supported.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is out of date; it learns the current one from its next heartbeat.",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request was meant for the other kind of endpoint, broker or controller.",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "This kind of endpoint is not supported.",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "There is no controller of this id.",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The telemetry subscription is unknown or out of date.",
    ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry is larger than telemetry.max.bytes.",
    ErrorCode.INVALID_REGISTRATION: "The registration does not fit this cluster.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction failed and must be aborted; the transactional id stays usable.",
    ErrorCode.INVALID_RECORD_STATE: "The record is not in a state that permits this acknowledgement.",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "There is no such share session.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The epoch of the share session is not the next one.",
    ErrorCode.FENCED_STATE_EPOCH: "The epoch of the share group's state is not the current one.",
    ErrorCode.INVALID_VOTER_KEY: "The voter's id and directory id are not those of this node.",
    ErrorCode.DUPLICATE_VOTER: "This voter is in the set of voters already.",
    ErrorCode.VOTER_NOT_FOUND: "This voter is not in the set of voters.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid.",
    ErrorCode.REBOOTSTRAP_REQUIRED: "The client's metadata is too old; it must start again from its bootstrap servers.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "The topology is not valid.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The epoch of the topology is not valid.",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The epoch of the topology is out of date.",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "The broker holds as many share sessions as it may.",
}
_NAMES = {code: name for name, code in vars(ErrorCode).items() if not name.startswith("_")}


def name_of(code: int) -> str:
    """Kafka's name of the code; `ERROR_<code>` for one that this release does not know."""
    return _NAMES.get(code, f"ERROR_{code}")


def message_of(code: int) -> str:
    """A sentence for a person."""
    return _MESSAGES.get(code, f"Error code {code}, which this release does not know.")


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed when sent again. Codes that this release does not know are not."""
    return code in _RETRIABLE
