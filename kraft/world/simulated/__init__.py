"""The simulated world: many nodes in one trio run, everything in memory and from one seed.

What enters: a seed, nodes' code, and the controls that fate (a test, a fault plan) pulls on `Universe`. What leaves:
a `World` for each life of each node, and a trace hash that a replay in another process must reproduce. Real clocks,
files, sockets and threads are deliberately absent; a real one open in a simulation would make it unrepeatable.
"""

from kraft.world.simulated.disk import Disk, Fault
from kraft.world.simulated.internet import NetworkFaults
from kraft.world.simulated.node import NodeDied
from kraft.world.simulated.universe import SimulatedWorld, SimulationTimeout, Universe

__all__ = ["Disk", "Fault", "NetworkFaults", "NodeDied", "SimulatedWorld", "SimulationTimeout", "Universe"]
