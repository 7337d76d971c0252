"""Rejects unknown query parameters: with a misspelt filter the response would be about something else."""

from __future__ import annotations

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from kraft_http.requests.errors import ApiProblem, FieldProblem
from kraft_http.requests.int64 import PARAMETER, tells_int64


async def known_parameters(request: Request) -> None:
    """Raises ApiProblem for a query parameter that the route does not have. Pages accept any: their scripts read
    them."""
    route = request.scope["route"]
    if not request.scope["query_string"] or not isinstance(route, APIRoute) or not route.include_in_schema:
        return
    known = [*_names(route.dependant), *([PARAMETER] if tells_int64(route) else [])]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        there_are = f"It has {', '.join(known)}." if known else "It has none."
        errors = [FieldProblem(pointer=name, detail="There is no such parameter here.") for name in unknown]
        named = ", ".join(repr(name[:80]) for name in unknown[:3])
        raise ApiProblem(400, f"This address has no query parameter {named}. {there_are}", errors=errors)


def _names(dependant: Dependant) -> list[str]:
    below = [name for each in dependant.dependencies for name in _names(each)]
    return [*(field.alias for field in dependant.query_params), *below]
