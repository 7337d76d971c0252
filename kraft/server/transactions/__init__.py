"""Transactions on one broker: the coordinator, and its and the leaders' requests to other brokers.

Enters: partitions of transactions, decided outcomes. Leaves: AddPartitionsToTxn, WriteTxnMarkers, producer ids.
Deliberately absent: the rules of transactions (`kraft/coordinator/transaction`).
"""
