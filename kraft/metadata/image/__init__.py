"""Images: the cluster's metadata as of one offset, as immutable values.

Enters: records of the metadata log (`MetadataImage.replay_batch`). Leaves: a new image and the set of changed keys. Old
images stay valid, so a task that holds one reads a consistent past. Taking a snapshot, dropping an uncommitted tail or
reading an old state costs nothing.

Each part has its own module and is an `OrderedMap` (a HAMT that is only iterated in key order, so that the hash seed
has no visible effect). Deliberately absent: time, offsets, I/O, and decisions. Images only replay what the controller
has decided.
"""
