"""Judging a run from its file alone. The rules are those of the simulation (`jepsen.checker`); here is what
only real runs need.

`allowances`: what the promise excludes under default flush settings, or with unclean elections: taken out record by
record before the rules look, and counted. `elections` knows what unclean elections can explain, `ways` what it means
for readers; `losses` holds what was told of them to what happened. `validity`: whether the run proves anything.
`verdict`: the one line.
"""
