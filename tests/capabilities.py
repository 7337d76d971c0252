"""What this machine can do, for tests that need more than Python.

`require_capability("root")` at the head of a test skips it with the capability's name where it is missing; with
CI=true a missing capability is a failure, so that no proof is lost unnoticed. `kraft/_tools/preflight.py` knows how
each is found.
"""

from __future__ import annotations

import os

import pytest

from kraft._tools.preflight import CAPABILITIES, find


def require_capability(name: str) -> None:
    """Skip, or under CI=true fail, the calling test unless the machine has `name`. Raises KeyError for a name that
    nobody knows."""
    capability = CAPABILITIES[name]
    found = find(name)
    if found.available:
        return
    message = f"capability {name!r} is missing ({found.detail}): {capability.disables}"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
