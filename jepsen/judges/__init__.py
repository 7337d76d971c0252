"""The judgement of a run from its file alone. The rules are those of the simulation (`jepsen.checker`); this package
has what only real runs need.

`allowances` removes, record by record, the losses that the promise allows under default flush settings or unclean
elections, and counts them. `elections` knows which losses unclean elections can explain, and `ways` what that means for
readers. `losses` compares the loss reports with what happened. `validity` says whether the run proves anything.
`verdict` is the result in one line.
"""
