"""Requests of commands to a node's HTTP admin, for what Kafka's protocol does not have."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

import trio
import typer

from kraft.cli.admin.command_config import OPTION, security_of_command
from kraft.common.config.node.checks import is_loopback
from kraft.common.errors import KraftError
from kraft.rpc_client.client_keys import ClientSecurity
from kraft.world.ports import LoginTokens
from kraft.world.real import RealWorld
from kraft.world.real.tls import client_context

T = TypeVar("T")

DEFAULT_ADMIN = "http://127.0.0.1:9644"
SILENCE_SECONDS_MAX = 30.0
"""A stream sends a heartbeat every ten seconds."""

Admin = Annotated[
    str, typer.Option("--admin", metavar="URL", envvar="KRAFT_ADMIN", help="URL of the HTTP admin of a node.")
]

ANSWER_BYTES_MAX: Final = 64 << 10
"""Limit of an error response."""


def open_admin(admin: str, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    """Send a GET request. Raises KraftError if the admin does not answer or rejects it."""
    try:
        address = urlsplit(admin if "//" in admin else f"//{admin}")
        host, port = address.hostname, address.port
    except ValueError as problem:
        raise KraftError(f"--admin {admin} is not a URL as {DEFAULT_ADMIN}: {problem}") from problem
    if "@" in address.netloc:
        raise KraftError(f"--admin has a name or password, which other users could see: put them into {OPTION} FILE")
    if not host or address.scheme not in ("", "http", "https"):
        raise KraftError(f"--admin {admin} is not a URL as {DEFAULT_ADMIN}")
    security = security_of_command()
    is_encrypted = address.scheme == "https"
    credentials = _credentials(admin, host, security, is_encrypted=is_encrypted)
    connection = http.client.HTTPConnection(host, port, timeout=SILENCE_SECONDS_MAX)
    if is_encrypted:
        connection = http.client.HTTPSConnection(host, port, timeout=SILENCE_SECONDS_MAX, context=_context(security))
    headers = {"Connection": "close", **credentials, **headers}
    try:
        connection.request("GET", address.path.rstrip("/") + path, headers=headers)
        response = connection.getresponse()
    except (OSError, http.client.HTTPException) as problem:
        raise KraftError(f"no HTTP admin answers at {admin}: {problem}") from problem
    if response.status == 401:
        raise KraftError(f"{admin} requires a name and password: give {OPTION} FILE with a valid sasl.jaas.config")
    if response.status != 200:
        raise KraftError(f"{admin} answers {response.status}: {_beginning(response)}")
    return response


def _beginning(response: http.client.HTTPResponse) -> str:
    """The message of an error response (application/problem+json), or the beginning of any other response."""
    try:
        text = response.read(ANSWER_BYTES_MAX).decode(errors="replace")
    except (OSError, http.client.HTTPException) as problem:
        return f"(it broke off: {problem})"
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("detail"), str):
        return f"{told['detail']} {hint}" if isinstance(hint := told.get("hint"), str) else told["detail"]
    return text[:2_000]


def _context(security: ClientSecurity) -> ssl.SSLContext | None:
    """The TLS context; None uses the operating system's trusted authorities. Raises KraftError."""
    if security.tls is None:
        return None
    try:
        return client_context(security.tls)
    except ValueError as problem:
        raise KraftError(f"{OPTION}: {problem}") from problem


def _credentials(admin: str, host: str, security: ClientSecurity, *, is_encrypted: bool) -> dict[str, str]:
    """The header with which the command authenticates. Raises KraftError if it would send credentials in clear text
    that its file requires to be encrypted."""
    if security.login is None:
        return {}
    if security.tls is not None and not is_encrypted and not is_loopback(host):
        raise KraftError(
            f"--admin {admin} would send the password of {OPTION} unencrypted, but its security.protocol is "
            "SASL_SSL: use an https URL"
        )
    if security.login.tokens is not None:
        return {"Authorization": f"Bearer {_token(security.login.tokens)}"}
    pair = f"{security.login.username}:{security.login.password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _token(tokens: LoginTokens) -> str:
    """A token for the login. Raises KraftError."""
    try:
        return trio.run(tokens.token, RealWorld())
    except OSError as problem:
        raise KraftError(f"{OPTION}: {problem}") from problem


def ask_admin(admin: str, path: str, read: Callable[[Any], T]) -> T:
    """The result of `read` for the JSON at `path`. Raises KraftError as `open_admin` does, and if the response is
    incomplete or invalid."""
    with open_admin(admin, path, {"Accept": "application/json"}) as response:
        try:
            return read(json.load(response))
        except (OSError, http.client.HTTPException) as problem:
            raise KraftError(f"{admin} interrupted its response: {problem}") from problem
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise senseless(admin, problem) from problem


def senseless(admin: str, problem: Exception) -> KraftError:
    """The error for a response in which `problem` was found."""
    return KraftError(
        f"{admin} sent an unexpected response: {type(problem).__name__}: {problem}; is --admin the HTTP admin "
        "of a node?"
    )
