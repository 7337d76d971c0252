"""Delegation tokens (KIP-48), for callers who have authenticated at this HTTP admin."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query

from kraft.admin.tokens import DEFAULT, Token, create_token, describe_tokens, expire_token, renew_token
from kraft_http.models.security import Principal, TokenBody, TokenData, TokenList, TokenTerm, TokenTermBody
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.deps import Port, Writable
from kraft_http.requests.errors import ApiProblem, FieldProblem, documented

router = APIRouter(tags=["Delegation tokens"])

PATH = "/v1/delegation-tokens"


@router.get(PATH, summary="List tokens", responses=documented(403))
async def list_tokens(port: Port, owner: Annotated[Principal | None, Query()] = None) -> TokenList:
    """List the tokens that the caller owns, may renew, or may describe. Each has its HMAC, as on the wire."""
    found = await describe_tokens(NodeTransport(port), None if owner is None else [owner])
    return TokenList(data=[_data(token) for token in found])


@router.post(PATH, status_code=201, summary="Make a token", dependencies=[Writable], responses=documented(400, 403))
async def make_token(port: Port, body: TokenBody) -> TokenData:
    """Create a delegation token. A client with its id and HMAC authenticates by SCRAM as its owner."""
    lifetime_ms = body.max_lifetime_ms or DEFAULT
    return _data(
        await create_token(NodeTransport(port), owner=body.owner, renewers=body.renewers, lifetime_ms=lifetime_ms)
    )


def _data(token: Token) -> TokenData:
    return TokenData(
        token_id=token.token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issued_ms=token.issued_ms,
        expires_ms=token.expires_ms,
        longest_ms=token.longest_ms,
        hmac=base64.b64encode(token.hmac).decode(),
    )


@router.post(f"{PATH}:renew", summary="Renew a token", dependencies=[Writable], responses=documented(400, 403, 404))
async def renew(port: Port, body: TokenTermBody) -> TokenTerm:
    """Renew a token for `period_ms`, by default delegation.token.expiry.time.ms, but not beyond its maximum
    lifetime."""
    period = DEFAULT if body.period_ms is None else body.period_ms
    return TokenTerm(expires_ms=await renew_token(NodeTransport(port), _hmac(body.hmac), period))


@router.post(f"{PATH}:expire", summary="End a token", dependencies=[Writable], responses=documented(400, 403, 404))
async def expire(port: Port, body: TokenTermBody) -> TokenTerm:
    """Expire a token in `period_ms`, or immediately. A client that has authenticated with it stays connected until its
    session ends."""
    period = DEFAULT if body.period_ms is None else body.period_ms
    return TokenTerm(expires_ms=await expire_token(NodeTransport(port), _hmac(body.hmac), period))


def _hmac(text: str) -> bytes:
    """The decoded HMAC. Raises ApiProblem."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as problem:
        errors = [FieldProblem(pointer="/hmac", detail="It is not base64.")]
        raise ApiProblem(400, "hmac is not base64.", errors=errors) from problem
