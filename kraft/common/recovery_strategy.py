"""How to elect a leader if no eligible replica is left: `kraft.unclean.recovery.strategy`, after KIP-966."""

from __future__ import annotations

from typing import Final

RECOVERY_STRATEGY: Final = "kraft.unclean.recovery.strategy"


class RecoveryStrategy:
    """The strategies. `unclean.leader.election.enable` has an effect under NONE only."""

    NONE: Final = "none"
    BALANCED: Final = "balanced"
    AGGRESSIVE: Final = "aggressive"


RECOVERY_STRATEGIES: Final = (RecoveryStrategy.NONE, RecoveryStrategy.BALANCED, RecoveryStrategy.AGGRESSIVE)
