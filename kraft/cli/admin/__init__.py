"""`kraft`: the command that administers a cluster over Kafka's protocol.

There is a module for each noun (`topics`, `configs`, `groups`, ...) with its verbs; `app` finds them without importing
them. All verbs share `options`, `running` (send a request to a cluster; errors become a message and an exit code) and
`output` (JSON, tables on a terminal, tab-separated columns elsewhere). Exit codes: 0 done, 1 failed, 2 wrong usage, 3
the named thing does not exist.
"""
