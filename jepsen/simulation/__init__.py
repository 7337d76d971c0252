"""A production node in the simulated world, run from a seed and judged afterwards.

What enters: a seed. What leaves: an `Outcome` - the verdict, what was wrong, and the trace hash that a replay in
another process must reproduce. Clients here speak the real protocol over the simulated network; nothing of the node
is replaced but its world.
"""
