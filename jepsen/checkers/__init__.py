"""Judging a run from its file alone. The rules are those of the simulation (`kraft.testing.checker`); here is what only real runs need.

`allowances`: what the promise excludes under default flush settings, or with unclean elections: taken out before the rules look, and counted.
`validity`: whether the run proves anything. `verdict`: the one line.
"""
