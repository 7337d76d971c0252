"""Coordinators: state machines whose state is stored in a log partition.

A coordinator shard owns one partition of an internal topic (`__consumer_offsets`, `__transaction_state`). Its state is
an immutable value. An operation is a plain function over a draft of that value. It writes records, which are replayed
onto the draft immediately; it changes what is kept only in memory (parked requests, session deadlines); and it returns
a response. The runtime adopts the new value, appends the records, and releases responses once the high watermark has
passed everything they depend on. If an append fails, the old value is restored and waiting requests get an error: the
undone state was never visible.

- `shard.py` is the contract between a state machine and its host; `coordinator_log.py` what a host needs of the
  replicated log.
- `shard_driver.py` hosts one shard, `runtime.py` all shards of a node, by leader epoch; `sweeps.py` is work on a whole
  shard, in bounded parts.
- `group/` holds the group state machine and `group/service/` its front end, `transaction/` the same for transactions,
  `records/` the generated key and value schemas.

Deliberately absent: sockets, authorization (handlers do that), the metadata image (topics are read through a port).
"""
