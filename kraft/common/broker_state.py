"""The state that an operator wants a broker to be in. It is a dynamic config of that broker, so it is in the metadata
log: it survives fail-overs, and any node can show it."""

from __future__ import annotations

from typing import Final

DESIRED_STATE: Final = "kraft.broker.desired.state"

ACTIVE: Final = "active"
"""It leads and holds replicas like any other."""
MAINTENANCE: Final = "maintenance"
"""The broker keeps its replicas in sync, and leads only partitions that no other replica can lead."""
DECOMMISSION: Final = "decommission"
"""As in maintenance; its replicas are moved to other brokers, and once it holds none and has stopped it is
unregistered."""

FENCED: Final = "fenced"
"""It is kept fenced although its process lives: it leads nothing, is in no in-sync set, and clients are not sent to
it. Its replicas stay where they are."""

DESIRED_STATES: Final = (ACTIVE, MAINTENANCE, FENCED, DECOMMISSION)
