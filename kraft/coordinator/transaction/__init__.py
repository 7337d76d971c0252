"""Transactions as their coordinator sees them (KIP-98, KIP-360, KIP-890): pure decisions over one shard of
`__transaction_state`.

`transaction` has the states and who the producer of a transactional id is; `shard` hosts them; `init_producer`,
`partitions` and `ending` decide what requests come to; `inspection` answers questions. `transaction_coordinator` is in
front of them, one method for each API: it alone waits.
"""
