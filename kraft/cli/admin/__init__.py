"""`kraft`: the command that administers a cluster over Kafka's protocol.

A module a noun (`topics`, `configs`, `groups`, ...), each with its verbs; `app` finds them without importing them.
What all verbs share: `options`, `running` (ask a cluster, turn what went wrong into a sentence and an exit code),
`output` (JSON, tables on a terminal, tab-separated columns elsewhere). Exit codes: 0 done, 1 failed, 2 wrong usage,
3 what was named does not exist.
"""
