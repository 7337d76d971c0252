"""Users with SCRAM credentials."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator

from kraft.admin.users import describe_users, put_user
from kraft.admin.users import remove_user as remove_passwords
from kraft.security.scram_credentials import MECHANISMS
from kraft_http.models.security import UserBody
from kraft_http.models.transactions import UserCredentials, UserList
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import Port, Writable
from kraft_http.requests.errors import documented, not_found
from kraft_http.requests.links import restore_slashes

router = APIRouter(tags=["Users"])

_Mechanism = Annotated[
    str | None, Query(pattern="^SCRAM-SHA-(256|512)$", description="Only this mechanism. Default: all.")
]


UserPath = Annotated[
    str,
    Path(description="Name of the user, without User:. Encode slashes as %2F."),
    AfterValidator(restore_slashes),
]


@router.get("/v1/users", summary="List users with SCRAM credentials")
async def list_users(port: Port) -> UserList:
    """List users with their mechanisms and iterations: nothing from which a password could be derived."""
    users = await describe_users(NodeTransport(port))
    return UserList(data=[UserCredentials(user=user.name, mechanisms=dict(user.iterations)) for user in users])


@router.put(
    "/v1/users/{user}",
    status_code=204,
    summary="Give a user a password",
    dependencies=[Writable],
    responses=documented(400, 403),
)
async def put_password(port: Port, user: UserPath, body: UserBody) -> Response:
    """Set a user's password for one mechanism. It is sent in clear text in the body: use HTTPS."""
    await put_user(NodeTransport(port), user, body.password, [MECHANISMS[body.mechanism]], body.iterations)
    return Response(status_code=204)


@router.delete(
    "/v1/users/{user}",
    status_code=204,
    summary="Take a user's password",
    dependencies=[Writable],
    responses=documented(400, 403, 404),
)
async def remove_user(port: Port, user: UserPath, mechanism: _Mechanism = None) -> Response:
    """Delete a user's credentials. Open sessions continue until they end."""
    kafka = NodeTransport(port)
    found = [name for each in await describe_users(kafka) if each.name == user for name in each.iterations]
    if not found or (mechanism is not None and mechanism not in found):
        raise not_found(f"User {user} with a password of {mechanism or 'SCRAM'}")
    taken = found if mechanism is None else [mechanism]
    await remove_passwords(kafka, user, [MECHANISMS[each] for each in taken])
    return Response(status_code=204)
