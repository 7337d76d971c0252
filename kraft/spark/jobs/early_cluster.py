"""Checks of a job's clusters before Spark starts: whether they respond, whether the topics exist or may be created, and
whether this user has the permissions that the job needs. A response that takes more than a few seconds counts as
missing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from kraft.common.errors import KraftError
from kraft.protocol.error_codes import ErrorCode, is_retriable, name_of
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.security.acls import OPERATION_NAMES, Operation
from kraft.spark.client.wire import WireCluster
from kraft.spark.errors import no_transactions, not_authorized
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.running import JobFailed, JobNotFound
from kraft.spark.jobs.topics import ABSENT, NO_CONFIGS, WHAT_TO_DO, SeenTopic
from kraft.spark.sink import committed_batches
from kraft.spark.sink.batch_commit import PREFIX
from kraft.spark.sink.sink_transaction import COORDINATOR_OF_TRANSACTION, missing_api
from kraft.spark.source.permissions import NOT_TOLD

T = TypeVar("T")

SECONDS_MAX: Final = 2.5
"""The time limit in which all bootstrap servers together are found unreachable."""
SECONDS_MIN: Final = 0.5
"""The minimum timeout of one bootstrap server."""
UNDECIDED: Final = frozenset((ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER))
"""Errors of a validate-only request that do not prevent the creation of the topic."""
REFUSED: Final = frozenset((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def early(at: Access, ask: Callable[[EarlyCluster], T]) -> T:
    """Return the result of `ask`. Raises JobFailed if no broker responds, or the response is unusable."""
    try:
        servers = max(1, at.bootstrap.count(",") + 1)
        cluster = WireCluster(at.bootstrap, timeout_s=max(SECONDS_MIN, SECONDS_MAX / servers), security=at.security)
        try:
            return ask(EarlyCluster(at, cluster))
        finally:
            cluster.close()
    except (JobFailed, JobNotFound):
        raise
    except (OSError, ValueError, KraftError) as problem:
        raise JobFailed(str(problem)) from problem


class EarlyCluster:
    """A cluster that is queried before Spark starts. Its methods raise JobNotFound, JobFailed, OSError, KraftError."""

    def __init__(self, at: Access, cluster: WireCluster) -> None:
        self.at, self.cluster = at, cluster

    def seen(self, topic: str, operation: int | None = None) -> SeenTopic:
        """Describe a topic, which need not exist. If it exists, this user must have the permission for `operation`."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        answer = self.cluster.any_call(request)
        found, name = answer.topics[0], answer.cluster_id or self.at.bootstrap
        if found.error_code in ABSENT:
            return SeenTopic(name, None, None)
        if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise self.lacking(topic, Operation.DESCRIBE if operation is None else operation)
        if found.error_code:
            raise JobFailed(f"topic {topic}: {name_of(found.error_code)}")
        if operation is not None and not is_given(found, operation):
            raise self.lacking(topic, operation)
        topic_id = str(uuid.UUID(bytes=bytes(found.topic_id))) if any(found.topic_id) else None
        return SeenTopic(name, topic_id, len(found.partitions))

    def existing(self, topic: str, operation: int) -> SeenTopic:
        """Describe a topic that must exist. This user must have the permission for the operation."""
        found = self.seen(topic, operation)
        if found.partitions is None:
            raise JobNotFound(f"topic {topic} does not exist at {self.at.bootstrap}: {WHAT_TO_DO}")
        return found

    def target(self, topic: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> SeenTopic:
        """Describe the topic to write to. This user must be permitted to write to it, or to create it."""
        found = self.seen(topic, Operation.WRITE)
        if found.partitions is None:
            self.check_made(topic, partitions, configs)
        return found

    def check_made(self, topic: str, partitions: int, configs: Mapping[str, str] = NO_CONFIGS) -> None:
        """Check that the topic could be created, by a request that only validates."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        answer = self.cluster.any_call(CreateTopicsRequest(topics=[wanted], validate_only=True)).topics[0]
        if answer.error_code in REFUSED:
            raise self.lacking(topic, Operation.CREATE)
        if answer.error_code and answer.error_code not in UNDECIDED and not is_retriable(answer.error_code):
            why = answer.error_message or name_of(answer.error_code)
            raise JobFailed(f"topic {topic} cannot be created at {self.at.bootstrap}: {why}")

    def check_transactions(self) -> None:
        """Check that the sink can write micro-batches in transactions, and can record them in its internal topic."""
        if missing := missing_api(self.cluster):
            raise JobFailed(str(no_transactions(missing)))
        answer = self.cluster.any_call(FindCoordinatorRequest(key=f"{PREFIX}/", key_type=COORDINATOR_OF_TRANSACTION))
        if answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            who = self.at.security.principal
            raise JobFailed(
                f"{who} lacks the permission Write on transactional ids that start with {PREFIX}/, or is "
                f"denied it. A cluster administrator can grant it: kraft acls add --allow-principal '{who}' "
                f"--operation write --transactional-id {PREFIX}/ --resource-pattern-type prefixed"
            )
        if self.seen(committed_batches.TOPIC, Operation.WRITE).partitions is None:
            self.check_made(committed_batches.TOPIC, committed_batches.PARTITIONS)
        else:
            self.seen(committed_batches.TOPIC, Operation.READ)

    def lacking(self, topic: str, operation: int) -> JobFailed:
        right = OPERATION_NAMES[operation].title().replace("_", "")
        return JobFailed(str(not_authorized(topic, right, self.at.security.principal)))


def is_given(found: Any, operation: int) -> bool:
    """Whether a Metadata response permits the operation. Also true if the response has no authorized operations."""
    operations = found.topic_authorized_operations
    return bool(operations == NOT_TOLD or operations & 1 << operation)
