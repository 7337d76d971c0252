"""The APIs of transactions, and what a Produce in a transaction asks of its coordinator first.

Enters: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers and those that look. Leaves: calls
of the coordinator, markers appended. Deliberately absent: decisions (`kraft/coordinator/transaction`).
"""
