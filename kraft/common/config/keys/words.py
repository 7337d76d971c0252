"""Short names for the values in the key tables."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import Importance, Status, UpdateMode
from kraft.common.config.types import ConfigType

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

ENFORCED: Final = Status.ENFORCED
ACCEPTED: Final = Status.ACCEPTED
REFUSED: Final = Status.REFUSED
PLUGIN: Final = Status.PLUGIN
