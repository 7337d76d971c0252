"""The state that an operator wants a broker to be in. It is a dynamic config of that broker, so it is in the metadata
log: it survives fail-overs, and any node can show it."""

from __future__ import annotations

from typing import Final

DESIRED_STATE: Final = "kraft.broker.desired.state"

ACTIVE: Final = "active"
"""The broker leads and holds replicas as usual."""
MAINTENANCE: Final = "maintenance"
"""The broker keeps its replicas in sync, and leads only partitions that no other replica can lead."""
DECOMMISSION: Final = "decommission"
"""As MAINTENANCE. In addition, its replicas are moved to other brokers. The broker is unregistered when it holds no
replica and has stopped."""

FENCED: Final = "fenced"
"""The broker is kept fenced although its process lives: it leads nothing, is in no ISR, and clients are not sent to it.
Its replicas are not moved."""

DESIRED_STATES: Final = (ACTIVE, MAINTENANCE, FENCED, DECOMMISSION)
