"""`kraft tokens`: delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

import typer

from kraft.admin import tokens
from kraft.admin.tokens import Token
from kraft.cli.admin.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Output, Timeout
from kraft.cli.admin.output import Table, moment, say, show
from kraft.cli.admin.running import ask
from kraft.rpc_client.cluster import Cluster

app = typer.Typer(
    no_args_is_help=True, help="Delegation tokens: let applications log in for a limited time without a password."
)

HOUR_MS = 3_600_000
Principals = Annotated[
    list[str] | None,
    typer.Option(
        "--renewer", metavar="PRINCIPAL", help="Principal that may renew the token, beside its owner. Repeatable."
    ),
]
Hmac = Annotated[
    str, typer.Argument(metavar="HMAC", show_default=False, help="HMAC of the token, as create and list print it.")
]


@app.command(epilog="Example: kraft tokens create --hours 12 --command-config alice.properties")
def create(
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="PRINCIPAL", help="Principal that owns the token. (default: yours)")
    ] = None,
    renewers: Principals = None,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours",
            metavar="N",
            min=0.001,
            help="Longest life of the token, in hours. (default: the cluster's, 7 days)",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Create a token. A client with its id and HMAC authenticates by SCRAM as its owner: keep them like a password."""
    names = [_principal(each, "--renewer") for each in renewers or ()]
    whose = None if owner is None else _principal(owner, "--owner")
    lifetime = tokens.DEFAULT if hours is None else int(hours * HOUR_MS)

    async def make(cluster: Cluster) -> Token:
        return await tokens.create_token(cluster, owner=whose, renewers=names, lifetime_ms=lifetime)

    token = ask(bootstrap, timeout, make)
    sentence = (
        f"token {token.token_id} of {token.owner}, until {moment(token.expires_ms)}\n"
        f"hmac: {_text(token.hmac)}\n"
        "to log in by it: sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="<hmac>" tokenauth="true";'
    )
    say(_document(token), sentence, output)


def _principal(name: str, option: str) -> str:
    if ":" not in name:
        raise typer.BadParameter(f"{name!r} is not a principal; write User:{name}", param_hint=option)
    return name


def _document(token: Token) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "longest_ms": token.longest_ms,
        "hmac": _text(token.hmac),
    }


@app.command("list", epilog="Example: kraft tokens list --owner User:alice")
def list_tokens(
    owners: Annotated[
        list[str] | None, typer.Option("--owner", metavar="PRINCIPAL", help="Only tokens of this owner.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Show the tokens that you own, may renew, or may describe."""
    names = None if not owners else [_principal(each, "--owner") for each in owners]
    found = ask(bootstrap, timeout, lambda cluster: tokens.describe_tokens(cluster, names))
    rows = [
        (each.token_id, each.owner, ", ".join(each.renewers), moment(each.expires_ms), moment(each.longest_ms))
        for each in found
    ]
    table = Table(("TOKEN", "OWNER", "RENEWERS", "EXPIRES", "AT THE LATEST"), rows)
    show({"tokens": [_document(each) for each in found]}, [table], output)


@app.command(epilog='Example: kraft tokens renew "$HMAC" --hours 24')
def renew(
    hmac: Hmac,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", metavar="N", min=0.001, help="Renew for N hours. (default: the cluster's period, 1 day)"
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Renew a token, but not beyond its maximum lifetime."""
    period = tokens.DEFAULT if hours is None else int(hours * HOUR_MS)
    known = _hmac(hmac)
    _tell("renewed", ask(bootstrap, timeout, lambda cluster: tokens.renew_token(cluster, known, period)), output)


@app.command(epilog='Example: kraft tokens expire "$HMAC"')
def expire(
    hmac: Hmac,
    hours: Annotated[
        float | None, typer.Option("--hours", metavar="N", min=0, help="Expire in N hours. (default: immediately)")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Expire a token. A client that has authenticated with it stays connected until its session ends."""
    period = tokens.DEFAULT if hours is None else int(hours * HOUR_MS)
    known = _hmac(hmac)
    _tell("expires", ask(bootstrap, timeout, lambda cluster: tokens.expire_token(cluster, known, period)), output)


def _text(hmac: bytes) -> str:
    return base64.b64encode(hmac).decode()


def _hmac(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise typer.BadParameter("it is not base64", param_hint="HMAC") from problem


def _tell(done: str, expires_ms: int, output: Any) -> None:
    say({"expires_ms": expires_ms}, f"{done}: {moment(expires_ms)}", output)
