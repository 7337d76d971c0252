"""Users with SCRAM credentials."""

from __future__ import annotations

from fastapi import APIRouter

from kraft_http.deps import Port
from kraft_http.kafka.client import Kafka
from kraft_http.kafka.users import describe_users
from kraft_http.models.transactions import UserCredentials, UserList

router = APIRouter(tags=["Users"])


@router.get("/v1/users", summary="List users with SCRAM credentials")
async def list_users(port: Port) -> UserList:
    """Mechanisms and iterations only: nothing from which a password could be found."""
    users = await describe_users(Kafka(port))
    return UserList(data=[UserCredentials(user=user, mechanisms=found) for user, found in users.items()])
