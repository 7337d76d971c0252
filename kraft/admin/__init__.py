"""The administrative operations, each written once: a module a noun, a function an operation, frozen values as
answers. The command line, the clients and Spark's jobs use them over `kraft.client.cluster.Cluster`, the HTTP admin
over its own node.

`reassignment_plan` plans where replicas should go, and asks nobody. Every other function takes an `AskPort` first,
which knows how a node is reached, in which version it is asked, and whether it is worth asking again. What is refused
is raised as `Refused`. Neither trio nor asyncio is known here: an operation awaits nothing but its port.
"""
