"""What this machine can do, for tests that need more than Python.

`require_capability("root")` at the head of a test skips it with the capability's name where it is missing. As root, and
with CI=true, a missing capability is a failure, so that no proof is lost unnoticed. `tests/preflight.py` knows
how each is found, and what to install.
"""

from __future__ import annotations

import pytest

from tests.preflight import CAPABILITIES, find, is_required

MISSING = "missing capability "
"""How the reason of every such skip begins."""


def require_capability(name: str) -> None:
    """Skip the calling test unless the machine has `name`, or fail it where nothing may be missing. Raises KeyError
    for a name that nobody knows."""
    capability = CAPABILITIES[name]
    found = find(name)
    if found.available:
        return
    remedy = f"; {capability.remedy}" if capability.remedy else ""
    message = f"{MISSING}{name!r} ({found.detail}): {capability.disables}{remedy}"
    if is_required():
        pytest.fail(message)
    pytest.skip(message)
