"""The group coordinator as handlers call it: one method per group API, over the shards of this node. The asynchronous
part of groups.

Input: requests of the group APIs. Output: operations on shards, and their responses. Deliberately absent: the rules
(`group/`) and the hosting of shards (`kraft/coordinator/runtime.py`).
"""
