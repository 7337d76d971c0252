"""Record batches: the content of a log, of a Produce request and of a Fetch response.

`RecordBatch` is a view of a batch's bytes that parses only the 61-byte header. Records are decoded only on request
(`RecordBatch.records()`). `build_batch` creates new batches. Only magic 2 is supported: older formats are rejected, as
in Kafka 4. `kraft.storage` decides whether a batch may be appended.
"""
