"""Random lives of a streams group (KIP-1071), sent to Apache Kafka and to a node of ours alike over the wire: every
answer must be the same, field by field.

A member is what it was told, so both sides hear the same requests. Orders of lists mean nothing. Kafka's assignor goes
through processes and members in the order of a hash table: their names here are those whose hashes are in the order of
the names, which is ours.

What a deadline does shows at one moment on one side and at another on the other. So a life with deadlines goes on in
bursts, and between two of them waits until all deadlines that were set have passed on both.
"""
