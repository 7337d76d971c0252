"""Transactions on one broker: the coordinator put together, and what coordinators and leaders ask of other brokers.

Enters: partitions of transactions, decided outcomes. Leaves: AddPartitionsToTxn, WriteTxnMarkers, producer ids.
Deliberately absent: what a transaction may do (`kraft/coordinator/transaction`).
"""
