"""The assignors of consumer groups. Input: subscriptions and the previous target. Output: the new target.

Pure and deterministic: the same subscribers and topics give the same assignment. Racks are ignored. `subscriber.py` has
the types all assignors share; the table of assignors is in `target.py`. `shares.py`, `chains.py` and `returns.py` are
the steps of `uniform.py` for members with different subscriptions.
"""
