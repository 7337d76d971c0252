"""The administrative operations, each written once: a module a noun, a function an operation, frozen values as
answers. The command line, the clients and Spark's jobs use them over `kraft.rpc_client.cluster.Cluster`, the HTTP admin
over its own node.

`reassignment_plan` plans where replicas should go, and asks nobody. The first parameter of every other function is an
`AdminTransport`: it reaches a node, chooses the API version, and decides whether to retry. A refused request raises
`Refused`. Neither trio nor asyncio is known here: an operation awaits nothing but its transport.
"""
