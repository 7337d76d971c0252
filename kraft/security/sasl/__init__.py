"""SASL authentication (KIP-43, KIP-84, KIP-152, KIP-368).

Pure state machines: `plain`, `scram` and `oauthbearer` process the messages of one login, `authentication` the requests
that carry them. Nothing here uses a socket; callers run PBKDF2 (`scram.ScramClient`) in a thread.
"""
