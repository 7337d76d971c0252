"""The secrets and logins of a node's listeners, and those by which it reaches other nodes.

Enters: Kafka's `ssl.` and `sasl.` keys, static and dynamic. Leaves: contexts of TLS, mechanisms, users. Deliberately
absent: what they compute (`kraft/security`), and ACLs.
"""
