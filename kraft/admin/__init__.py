"""The administrative operations, each written once: a module for each noun, a function for each operation, frozen
values as results. The command line, the clients and Spark's jobs use them over `kraft.rpc_client.cluster.Cluster`, the
HTTP admin over its own node.

`reassignment_plan` plans the placement of replicas and sends no request. The first parameter of every other function is
an `AdminTransport`: it reaches a node, chooses the API version, and decides about retries. A rejected request raises
`Refused`. Neither trio nor asyncio is used here: an operation awaits nothing but its transport.
"""
