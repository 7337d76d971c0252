"""The last hour of a node, for the charts of the console: samples every ten seconds, in bounded memory.

Enters: counters of partitions, groups and the event loop. Leaves: series of this node, or the sums over all live ones.
Deliberately absent: files; the history is lost with the process.
"""
