"""The assignors of consumer groups: from who subscribes to what, and who was to have what, to who shall have what.

Pure and free of chance: the same subscribers and topics give the same assignment on every run. Racks are not looked
at. `subscriber.py` is what all assignors share; the table of them is in `target.py`. `shares.py`, `chains.py` and
`returns.py` are the steps of `uniform.py` for members with different subscriptions.
"""
