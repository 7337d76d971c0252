"""Free ports for nodes that must know each other's ports before they start."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from itertools import count as counting
from typing import Final

HOST: Final = "127.0.0.1"
LOWEST, HIGHEST = 20_000, 32_000
"""Below the ports that Linux gives to outgoing connections (from 32768 on): one of those may take the port of a node
that is down for a moment."""
_candidates = counting(os.getpid() * 131)
"""Each process starts at another port, and returns no port twice before it has gone through all."""


def free_ports(count: int) -> list[int]:
    """Return loopback ports that were free a moment ago; all are held until the last is found. Raises OSError if there
    are not enough."""
    found: list[int] = []
    with ExitStack() as held:
        for _ in range(HIGHEST - LOWEST):
            if len(found) == count:
                return found
            port = LOWEST + next(_candidates) % (HIGHEST - LOWEST)
            each = held.enter_context(socket.socket())
            try:
                each.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
    raise OSError(f"there are no {count} free ports from {LOWEST} to {HIGHEST - 1}")
