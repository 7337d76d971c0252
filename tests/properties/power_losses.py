"""Power losses of whole clusters under default settings, by seeds: `jepsen.simulation.power` says what may be lost.

python -m tests.properties.power_losses --these 1 2 3
"""

from __future__ import annotations

import sys

from jepsen.simulation.power import PowerRun
from tests.properties.seeds import run_seeds


def violation_of(seed: int) -> str:
    """Empty where the promise holds."""
    outcome = PowerRun(seed).run()
    return outcome.violations[0] if outcome.violations else ""


if __name__ == "__main__":
    sys.exit(run_seeds("power_losses", __doc__, violation_of))
