"""What routes depend on runs on the edge's loop."""

from __future__ import annotations

import inspect
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from kraft_http.app import ROUTERS


def test_no_dependency_runs_in_a_thread() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) > 50
    calls = [call for route in routes for call in _calls(route.dependant)]
    assert {call.__qualname__ for call in calls if not inspect.iscoroutinefunction(call)} == set()


def _calls(dependant: Dependant) -> list[Any]:
    return [dependant.call, *(call for below in dependant.dependencies for call in _calls(below))]
