"""SASL: who a client is, by a password (KIP-43, KIP-84, KIP-152, KIP-368).

Pure state machines: `plain` and `scram` judge the messages of one login, `authentication` the requests that carry
them. Nothing here knows a socket; the work of PBKDF2 (`scram.ScramClient`) is left to a thread by its caller.
"""
