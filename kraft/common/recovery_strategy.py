"""What to do with a partition when nobody who may lead it is left: `kraft.unclean.recovery.strategy`, after KIP-966."""

from __future__ import annotations

from typing import Final

RECOVERY_STRATEGY: Final = "kraft.unclean.recovery.strategy"


class RecoveryStrategy:
    """`unclean.leader.election.enable` counts under NONE only."""

    NONE: Final = "none"
    BALANCED: Final = "balanced"
    AGGRESSIVE: Final = "aggressive"


RECOVERY_STRATEGIES: Final = (RecoveryStrategy.NONE, RecoveryStrategy.BALANCED, RecoveryStrategy.AGGRESSIVE)
