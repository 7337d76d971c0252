"""The keys and logins of a node's listeners, and those with which it connects to other nodes.

Enters: Kafka's `ssl.` and `sasl.` keys, static and dynamic. Leaves: TLS contexts, mechanisms, users. Deliberately
absent: their computations (`kraft/security`), and ACLs.
"""
