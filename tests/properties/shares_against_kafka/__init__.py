"""Random lives of a share group, sent to Apache Kafka and to a node of ours alike over the wire: every answer must be
the same, and each record must be delivered to the same member, as often.

What a member holds is known from the answers, so both sides are asked about the same records. Session epochs are each
side's own: a stale one is stale on both. Two things happen beside the answers, the release of what a member held at the
end of its session and the end of a lock. After them a member takes all that is available, in as many fetches as each
side needs.

A life has one of three kinds, in which Kafka and ours have to choose the same records. Kafka divides what is in flight
by the fetches that first delivered it (`batch_size`); ours by batches of the log. Three differences are known: ours
raises the epoch of a group whose offsets are altered; it stores a start offset with the change that moved it; and its
lag never counts records below the start of the log.
"""
