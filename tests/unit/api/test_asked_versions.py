"""The HTTP admin can ask its node whatever `kraft.admin` asks."""

from __future__ import annotations

import importlib
import pkgutil

from kraft_http.node_transport import VERSIONS

import kraft.admin
from kraft.handlers.all_handlers import broker_registry
from kraft.protocol.schema import Message


def asked_by_operations() -> dict[int, str]:
    """Every API that an operation asks, with the name of its request."""
    found = {}
    for module in pkgutil.iter_modules(kraft.admin.__path__):
        for name, value in vars(importlib.import_module(f"kraft.admin.{module.name}")).items():
            if isinstance(value, type) and issubclass(value, Message) and name.endswith("Request"):
                found[value.API_KEY] = name
    return found


def test_each_admin_operation_has_a_version_that_nodes_serve() -> None:
    asked = asked_by_operations()
    assert len(asked) > 30
    assert [name for key, name in asked.items() if key not in VERSIONS] == []
    registry = broker_registry()
    for key, version in VERSIONS.items():
        handler = registry.get(key)
        assert handler is not None
        assert handler.min_version <= version <= handler.max_version, key
