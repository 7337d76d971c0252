"""Images: the cluster's metadata as of one offset, as immutable values.

Records of the metadata log enter (`MetadataImage.replay_batch`), a new image and the set of changed keys leave. Old
images stay valid, so whoever holds one reads a consistent past; taking a snapshot, dropping an uncommitted tail or
answering from yesterday's state costs nothing. Every part lives in a module of its own and is an `OrderedMap` (a
HAMT that is only ever iterated in key order, so that no hash seed shows through). Deliberately absent: time,
offsets, I/O, and any decision - images only replay what the controller has decided.
"""
