"""Faults of a simulated run: their kinds, the schedule drawn from the seed, and faults targeted at a chosen moment."""
