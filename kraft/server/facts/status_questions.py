"""Requests for another node's status keys (`kraft.common.status_keys`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.common.errors import ApiError
from kraft.common.status_keys import document_of
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse
    from kraft.server.http_admin.remote_requests import RemoteRequests

ANSWER_SECONDS_MAX: Final = 2.0
"""Timeout of a request to the active controller or another node. Nodes that do not respond are left out."""
ASKED_AT_ONCE: Final = 16
CONFIGS_VERSION: Final = 4


async def ask_status(remote: RemoteRequests, node_id: int, kind: int, name: str, key: str) -> Any | None:
    """The document of a status key, None if the node does not serve it. Raises as `RemoteRequests.call`; ApiError if it
    is rejected; ValueError for an invalid document."""
    return status_document(await remote.call(CONFIGS_VERSION, status_question(kind, name, key), node_id), key)


async def ask_statuses(
    remote: RemoteRequests, node_id: int, kind: int, names: Sequence[str], key: str
) -> dict[str, Any]:
    """The documents of several resources, by name. Resources that are rejected or not served are left out. Raises as
    `RemoteRequests.call`; ValueError for an invalid document."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key]) for name in names
        ]
    )
    response: DescribeConfigsResponse = await remote.call(CONFIGS_VERSION, request, node_id)
    documents = {
        result.resource_name: document_of(key, [(entry.name, entry.value) for entry in result.configs])
        for result in response.results
        if not result.error_code
    }
    return {name: document for name, document in documents.items() if document is not None}


def status_question(kind: int, name: str, key: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
    return DescribeConfigsRequest(resources=[resource])


def status_document(response: DescribeConfigsResponse, key: str) -> Any | None:
    """The document in a response. Raises ApiError if the resource was rejected, ValueError for an invalid document."""
    (result,) = response.results
    if result.error_code:
        raise ApiError(result.error_code, result.error_message or "")
    return document_of(key, [(entry.name, entry.value) for entry in result.configs])
