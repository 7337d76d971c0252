"""The group coordinator as handlers call it: one method for each group API, over the shards of this node. The part of
groups that waits.

Enters: requests of the group APIs. Leaves: operations on shards, their answers. Deliberately absent: rules, which are
beside, and the hosting of shards (`kraft/coordinator/runtime.py`).
"""
