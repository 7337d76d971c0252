"""Record batches: what a log holds, a Produce carries and a Fetch returns.

A batch enters as bytes and is seen through `RecordBatch`, a view that parses the 61-byte header and nothing else.
Records are decoded only by those who ask (`RecordBatch.records()`); `build_batch` makes new batches. Only magic 2
exists here: older formats are refused, as Kafka 4 does. Deliberately absent: any decision whether a batch may be
appended (`kraft.storage`).
"""
