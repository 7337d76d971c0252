"""What controllers describe themselves, and to whom: users with credentials and delegation tokens. Apache Kafka's
controllers advertise these requests and answer them to nobody, so its answers cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from kraft.admin import acls, tokens, users
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kraft.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import connect
from kraft.security.scram_credentials import BY_NUMBER
from tests.vectors.denied.matrix import Address, our_node, world_of
from tests.vectors.denied.principals import ADMIN, PRINCIPALS

MAY_DESCRIBE, OWNER, NOBODY = "cluster-describe", "writer", "nobody"


async def prepare(address: Address) -> None:
    """Rights, a user with credentials, and a token of OWNER."""
    async with Cluster(world_of(ADMIN), [address]) as cluster:
        await acls.create_acls(cluster, [grant.entry(MAY_DESCRIBE) for grant in PRINCIPALS[MAY_DESCRIBE]])
        await users.put_user(cluster, "ada", "secret", [BY_NUMBER[1]], iterations=4096)
    async with Cluster(world_of(OWNER), [address]) as cluster:
        await tokens.create_token(cluster)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Address]]:
    with our_node(tmp_path_factory.mktemp("described") / "node") as addresses:
        trio.run(prepare, addresses["broker"])
        yield addresses


def asked(address: Address, user: str, request: Any) -> Any:
    async def ask() -> Any:
        async with connect(world_of(user), *address) as connection:
            return await connection.call(request, version=connection.versions[request.API_KEY][1])

    return trio.run(ask)


def tokens_of(address: Address, user: str) -> list[tuple[str, bytes]]:
    response = asked(address, user, DescribeDelegationTokenRequest(owners=None))
    assert response.error_code == 0
    return [(each.principal_name, bytes(each.hmac)) for each in response.tokens]


@pytest.mark.parametrize("door", ["broker", "controller"])
def test_describing_scram_users_needs_describe_on_the_cluster(doors: dict[str, Address], door: str) -> None:
    everyone = DescribeUserScramCredentialsRequest(users=None)
    described = asked(doors[door], MAY_DESCRIBE, everyone)
    assert [(each.user, each.credential_infos[0].iterations) for each in described.results] == [("ada", 4096)]
    refused = asked(doors[door], NOBODY, everyone)
    assert (refused.error_code, refused.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    named = DescribeUserScramCredentialsRequest(users=[UserName(name="ada"), UserName(name="bob")])
    assert [each.error_code for each in asked(doors[door], NOBODY, named).results] == [31, 31]
    assert [each.error_code for each in asked(doors[door], MAY_DESCRIBE, named).results] == [
        ErrorCode.NONE,
        ErrorCode.RESOURCE_NOT_FOUND,
    ]


@pytest.mark.parametrize("door", ["broker", "controller"])
def test_a_token_is_described_to_its_owner_and_users_with_permission(doors: dict[str, Address], door: str) -> None:
    [(owner, hmac)] = tokens_of(doors[door], OWNER)
    assert (owner, len(hmac)) == (OWNER, 64)
    assert tokens_of(doors[door], NOBODY) == tokens_of(doors[door], MAY_DESCRIBE) == []
