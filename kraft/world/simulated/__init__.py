"""The simulated world: many nodes in one trio run, everything in memory and from one seed.

Enters: a seed, nodes' code, and the controls of `Universe` that a test or a fault schedule uses. Leaves: a `World` for
each life of each node, and a trace hash that a replay in another process must reproduce. Deliberately absent: real
clocks, files, sockets and threads, which would make a simulation unrepeatable.
"""

from kraft.world.simulated.disk import Disk, Fault
from kraft.world.simulated.internet import NetworkFaults
from kraft.world.simulated.node import NodeDied
from kraft.world.simulated.universe import SimulatedWorld, SimulationTimeout, Universe

__all__ = ["Disk", "Fault", "NetworkFaults", "NodeDied", "SimulatedWorld", "SimulationTimeout", "Universe"]
