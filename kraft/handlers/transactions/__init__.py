"""The APIs of transactions, and the verification of a transactional Produce with its coordinator.

Enters: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers, describing and listing. Leaves:
calls of the coordinator, appended markers. Deliberately absent: decisions (`kraft/coordinator/transaction`).
"""
