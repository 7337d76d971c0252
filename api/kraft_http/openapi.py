"""The OpenAPI document: FastAPI's, with this API's error responses in place of FastAPI's."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from kraft_http.models.records import ProduceRecord
from kraft_http.ports import NodeIdentity
from kraft_http.requests.errors import PROBLEM_JSON, ErrorBody
from kraft_http.requests.int64 import DOCUMENTED, has_int64
from kraft_http.requests.preconditions import CHANGING
from kraft_http.requests.scopes import PROBES

TITLE: Final = "kraft HTTP admin"
DESCRIPTION: Final = """\
Administers a cluster and reads and writes records over HTTP. Everything below `/v3` has the bodies of Confluent's
REST API v3, so its clients work, also those that ask below `/kafka/v3`, as of Confluent Server; `/v1` and the
addresses without a version are about this node and its health.

Every error is a problem (RFC 9457) that also carries v3's `error_code` and `message`, the Kafka error behind it, and
often what to do.

Documents of up to 64 KiB have an ETag: `If-None-Match` answers 304 where nothing is new, and `If-Match` makes a
PATCH, PUT or DELETE hold only for what was read (it is compared just before the change; a change that comes through
another node in between is not seen). Query parameters that an address does not know are refused.

Where an answer has fields of format int64, a GET takes `int64=string`: those fields are then JSON strings. What is not
described field by field, as a record's own JSON or the fields of an event, stays as it is.
"""

_COMMON_ERRORS: Final = {
    "400": "The request is not valid.",
    "401": "Nobody has logged in, or name and password are wrong (kraft.admin.authentication).",
    "403": "The Host or the Origin is not one of this admin's (kraft.admin.allowed.hosts).",
    "429": "Too many logins from this address have failed. Try again after the seconds in Retry-After.",
    "500": "Something failed here. The node's log says what.",
    "501": "This node does not serve that.",
    "503": "Not now: no leader, no controller or no coordinator. Try again after the seconds in Retry-After.",
    "504": "No answer in time; whether it was done is not known.",
}

_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The ETag of a GET of this address: the change is made only if a GET would still answer the same.",
}


def install(app: FastAPI, identity: NodeIdentity) -> None:
    """Serve the document at /openapi.json."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, identity.version)
            if identity.asks_for_password:
                _ask_for_password(app.openapi_schema)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI documents this way of replacing it.


def _document(app: FastAPI, version: str) -> dict[str, Any]:
    document = get_openapi(title=TITLE, version=version, description=DESCRIPTION, routes=app.routes)
    schemas = document["components"]["schemas"]
    for model in (ErrorBody, ProduceRecord):
        own = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(own.pop("$defs", {}))
        schemas[model.__name__] = own
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in document["paths"].items():
        answer = operations.get("get", {}).get("responses", {}).get("200")
        if path.startswith(("/v1/", "/v3/")) and has_int64(answer, schemas):
            operations["get"].setdefault("parameters", []).append(DOCUMENTED)
        for method, operation in operations.items():
            if method.upper() in CHANGING and "get" in operations:
                operation.setdefault("parameters", []).append(_IF_MATCH)
                operation["responses"]["412"] = {"description": "If-Match is not true any more. Nothing was changed."}
            _errors(path, operation["responses"])
            if "requestBody" in operation:
                operation["responses"].setdefault("415", _error("The body is not called JSON."))
    return document


def _ask_for_password(document: dict[str, Any]) -> None:
    """Declare HTTP Basic authentication for every operation except probes."""
    document["components"]["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    document["security"] = [{"basic": []}]
    for path in PROBES:
        for operation in document["paths"][path].values():
            operation["security"] = []


def _errors(path: str, responses: dict[str, Any]) -> None:
    """Declare the error responses that every operation may return. FastAPI's 422 is removed: it never occurs here."""
    if responses.get("422", {}).get("description") == "Validation Error":
        del responses["422"]
    if path.startswith(("/v1", "/v3")):
        for status, description in _COMMON_ERRORS.items():
            responses.setdefault(status, {"description": description})
    for status, response in responses.items():
        if status >= "400" and "ProbeData" not in str(response):
            response.update(_error(response["description"]))


def _error(description: str) -> dict[str, Any]:
    reference = {"schema": {"$ref": "#/components/schemas/ErrorBody"}}
    return {"description": description, "content": {"application/json": reference, PROBLEM_JSON: reference}}
