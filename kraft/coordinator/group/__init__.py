"""Groups and their committed offsets. Nothing here knows a clock, a task or a socket, but for `service/`, which is in
front of the rest.

Enters: a `GroupDraft` (the state being changed, the time, the token of the caller) and a request message. Leaves: a
response, or `PARKED` when the answer comes later under the caller's token. `classic/classic_group.py` is the group,
`classic/rebalance.py` its transitions, and one module an API holds the rules of that API; `offsets/` are those of
offsets. `replay.py` is the only place that turns records into state.

The classic protocol's memory is split: members, generation and assignment are durable from the moment the leader's
assignment is written (GroupMetadata record); who is waiting to join or to sync is known to the living coordinator
alone, and is lost with it: members then find an unknown or old generation and join again.

`consumer/` holds the groups of KIP-848, which a group id is in one of: classic or consumer.

Deliberately absent: share and streams groups. Their records are skipped when a partition is loaded.
"""
