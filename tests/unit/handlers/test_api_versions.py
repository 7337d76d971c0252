"""ApiVersions 5: a client says which node it means to reach, and is sent away from another (KIP-1242)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from kraft.handlers.api_versions import API, api_versions
from kraft.handlers.registry import BROKER, CONTROLLER, RequestContext
from kraft.network.reply import Peer
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest

CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def code_of(
    cluster_id: str | None,
    node_id: int,
    *,
    version: int = 5,
    listener: str = BROKER,
    is_logged_in: bool = True,
    software: str = "java",
) -> int:
    node = SimpleNamespace(
        registry=SimpleNamespace(listener=listener, api_versions=[]),
        cluster_id=CLUSTER,
        replicas=SimpleNamespace(node_id=1),
        finalized_features=dict,
        metadata=SimpleNamespace(offset=7),
    )
    peer = Peer("127.0.0.1", "PLAINTEXT", ("127.0.0.1", 9092))
    peer.proven = is_logged_in
    request = ApiVersionsRequest(
        client_software_name=software, client_software_version="4.4.0", cluster_id=cluster_id, node_id=node_id
    )
    context = RequestContext(peer, ApiKey.API_VERSIONS, version, 1, "c")
    code: int = trio.run(api_versions, request, context, node).error_code
    return code


def test_api_versions_is_served_in_the_requested_version() -> None:
    assert API.max_version == 5


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER, 1, ErrorCode.NONE),
        (CLUSTER, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_client_that_expects_another_node_must_rebootstrap(cluster_id: str | None, node_id: int, code: int) -> None:
    assert code_of(cluster_id, node_id) == code


def test_a_request_without_a_valid_software_name_is_refused_first() -> None:
    assert code_of(CLUSTER, 2, software="-") == ErrorCode.INVALID_REQUEST


def test_controllers_and_brokers_before_a_login_do_not_check_the_expected_node() -> None:
    assert code_of("another", 2, listener=CONTROLLER) == ErrorCode.NONE
    assert code_of("another", 2, is_logged_in=False) == ErrorCode.NONE
    assert code_of("another", -1, is_logged_in=False) == ErrorCode.INVALID_REQUEST
