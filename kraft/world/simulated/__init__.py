"""The simulated world: many nodes in one trio run, everything in memory and from one seed.

The input is a seed, the code of nodes, and the controls of `Universe` that a test or a fault schedule uses. The output
is a `World` for each life of each node, and a trace hash that a replay in another process must reproduce. Real clocks,
files, sockets and threads are not used, because they would make a simulation unrepeatable.
"""

from kraft.world.simulated.disk import Disk, Fault
from kraft.world.simulated.internet import NetworkFaults
from kraft.world.simulated.node import NodeDied
from kraft.world.simulated.universe import SimulatedWorld, SimulationTimeout, Universe

__all__ = ["Disk", "Fault", "NetworkFaults", "NodeDied", "SimulatedWorld", "SimulationTimeout", "Universe"]
