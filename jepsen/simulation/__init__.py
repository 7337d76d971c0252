"""Simulated runs: production nodes in the simulated world, run from a seed and judged afterwards.

The input is a seed. The result is an `Outcome`: the verdict, the violations, and the trace hash that a replay in
another process must reproduce. Clients speak the real protocol over the simulated network; of a node only its world is
replaced.
"""
