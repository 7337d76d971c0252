"""Keys of the values that a request carries, and facts read from its path before it is routed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

PORT: Final = "kraft_http.port"
"""Attribute of a request with the node, as its caller may use it."""
CERTIFICATE: Final = "peer_certificate"
SOURCE: Final = "peer_host"
"""Key in the state of a connection (`kraft_http.requests.connections`). Forwarding headers of a request are ignored."""
PROBES: Final = ("/livez", "/readyz", "/healthz")
"""Paths without a login, for probes of orchestrators. Their responses contain nothing else."""
_STREAMED: Final = re.compile(r"/v3/clusters/[^/]+/topics/[^/]+/records")


def is_streamed(scope: Mapping[str, Any]) -> bool:
    """Whether the request's body is a stream without a size limit."""
    return _STREAMED.fullmatch(scope["path"]) is not None
