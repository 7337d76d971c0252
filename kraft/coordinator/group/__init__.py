"""Groups and their committed offsets. Except for `service/`, the front end, this code uses no clock, task or socket.

Input: a `GroupDraft` (the state being changed, the time, the token of the caller) and a request message. Output: a
response, or `PARKED` when the response comes later under the caller's token. `classic/classic_group.py` is the group,
`classic/rebalance.py` its transitions, and each API has a module with its rules; `offsets/` has those of offsets. Only
`replay.py` turns records into state.

Part of a classic group's state is durable: members, generation and assignment, from the GroupMetadata record that the
leader's assignment writes. Parked JoinGroup and SyncGroup requests are only in the coordinator's memory. If they are
lost, members find an unknown or old generation and rejoin.

`consumer/` holds the groups of KIP-848, `share/` those of KIP-932 and `streams/` those of KIP-1071. A group id has one
of these types.
"""
