"""The last hour of a node, for the charts of the console: samples every ten seconds, in bounded memory.

Enters: what partitions, groups and the loop have done. Leaves: numbers a series, of this node or put together from all
live ones. Deliberately absent: files; an hour is forgotten with the process.
"""
