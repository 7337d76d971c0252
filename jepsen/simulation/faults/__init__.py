"""Faults of a simulated run: their kinds, their schedule by seed, and the ones that strike at a chosen moment."""
