"""Check permissions on the driver before any task runs: a task that is refused can only be retried by Spark."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.security.acls import OPERATION_NAMES
from kraft.spark.client.wire import WireCluster
from kraft.spark.client.wire_security import WireSecurity
from kraft.spark.errors import not_authorized

log = logging.getLogger(__name__)
TIMEOUT_S: Final = 10.0
NOT_TOLD: Final = -(1 << 31)
"""The value of the operations field from a broker that does not support it."""


def require_right(bootstrap: str, security: WireSecurity, topics: Sequence[str], operation: int) -> None:
    """Check that the login may do `operation` (`acls.Operation`) on each existing topic. Raises SourceError, or
    WireError if the login or certificate is refused. Unreachable nodes are ignored here: the queries that follow retry
    them."""
    cluster = WireCluster(bootstrap, timeout_s=TIMEOUT_S, security=security)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=each) for each in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    try:
        answer = cluster.any_call(request)
    except OSError as problem:
        log.warning("the permissions on %s are unknown: %s", ", ".join(topics), problem)
        return
    finally:
        cluster.close()
    right = OPERATION_NAMES[operation].title()
    for each in answer.topics:
        operations = each.topic_authorized_operations
        is_lacking = not each.error_code and operations != NOT_TOLD and not operations & 1 << operation
        if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED or is_lacking:
            raise not_authorized(each.name, right, security.principal)
