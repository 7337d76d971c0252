"""The transaction coordinator's rules (KIP-98, KIP-360, KIP-890): pure decisions over one shard of
`__transaction_state`.

`transaction` has the states and the producer of a transactional id; `shard` hosts them; `init_producer`, `partitions`
and `ending` decide requests; `inspection` answers queries. `transaction_coordinator` is the front end with one method
per API, and the only asynchronous part.
"""
