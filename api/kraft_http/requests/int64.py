"""64-bit numbers as JSON strings on request: JavaScript rounds numbers beyond 2^53.

`?int64=string` is a parameter of every GET below /v1 and /v3 whose response schema has such numbers. They have the type
`Int64`, and format int64 in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import Annotated, Any, Final

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import PlainSerializer, TypeAdapter, WithJsonSchema

from kraft_http.requests.errors import ApiProblem

PARAMETER: Final = "int64"
FORMAT: Final = "int64"
_FORMS: Final = ("number", "string")
_as_text: ContextVar[bool] = ContextVar("int64_as_text", default=False)
"""Whether the response of this task has 64-bit integers as strings."""

DOCUMENTED: Final = {
    "name": PARAMETER,
    "in": "query",
    "required": False,
    "schema": {"type": "string", "enum": list(_FORMS), "default": _FORMS[0]},
    "description": "`string`: fields of format int64 are JSON strings, since JavaScript rounds numbers beyond 2^53.",
}


def _written(value: int) -> int | str:
    return str(value) if _as_text.get() else value


Int64 = Annotated[
    int, PlainSerializer(_written), WithJsonSchema({"type": ["integer", "string"], "format": FORMAT}, "serialization")
]


def tells_int64(route: APIRoute) -> bool:
    """Whether the route is a GET of the API whose response has 64-bit numbers."""
    is_get = route.methods is not None and "GET" in route.methods
    return is_get and route.path.startswith(("/v1/", "/v3/")) and _model_tells(route.response_model)


@cache
def _model_tells(model: Any) -> bool:
    return model is not None and has_int64(TypeAdapter(model).json_schema(mode="serialization"), {})


def has_int64(schema: Any, schemas: Mapping[str, Any]) -> bool:
    """Whether a schema has a part of format int64, in itself or in a schema of `schemas` that it refers to."""
    to_see, seen = [schema], []
    while to_see:
        part = to_see.pop()
        if isinstance(part, list):
            to_see += part
        elif isinstance(part, dict):
            if part.get("format") == FORMAT:
                return True
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name in schemas and name not in seen:
                seen.append(name)
                to_see.append(schemas[name])
            to_see += part.values()
    return False


async def int64_form(request: Request) -> None:
    """Set the form of 64-bit numbers for the task of this request. Raises ApiProblem for an unknown form."""
    _as_text.set(False)  # A task may have answered another request before.
    forms = request.query_params.getlist(PARAMETER)
    route = request.scope["route"]
    if not forms or not isinstance(route, APIRoute) or not tells_int64(route):
        return
    if len(forms) > 1 or forms[0] not in _FORMS:
        raise ApiProblem(400, f"{PARAMETER} is one of: {', '.join(_FORMS)}.")
    _as_text.set(forms[0] == "string")
