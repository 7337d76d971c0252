"""Coordinators: state machines whose memory is a log partition.

A coordinator shard owns one partition of an internal topic (`__consumer_offsets`; transactions will own
`__transaction_state` the same way). Its state is an immutable value. An operation is a plain function over a draft
of that value: it writes records, which are replayed onto the draft at once, changes what only lives in memory (who
waits for a rebalance, when a session ends), and returns an answer. The runtime adopts the new value, appends the
records, and lets answers go when the high watermark has passed everything they rest on. If an append fails, the old
value is simply put back, and whoever waited for an answer gets an error: nobody has seen what was undone.

- `shard.py` is the contract between a state machine and its host; `coordinator_log.py` what a host needs of the
  replicated log.
- `shard_driver.py` hosts one shard, `runtime.py` all shards of a node, by leader epoch; `walks.py` is work on a
  whole shard, in turns.
- `group/` holds the group state machine and `group/service/` what is in front of it, `transaction/` the same for
  transactions, `records/` the generated key and value schemas.

Deliberately absent: sockets, authorization (handlers do that), the metadata image (topics come in through a port).
"""
