"""Topics of one cluster, kept in another: what a copy is, where it stands, and which offsets groups have there.

Lives here: the copying that `kraft mirror` does (one transaction at a time, so that each record arrives once), and
what Spark's mirror shares with it, which is pure. Enters: two clusters, names or a pattern. Leaves: records, topics and
offsets at the target, and the mirror's own topic, in which it remembers how far it is.
"""
