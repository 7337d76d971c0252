"""Faults that cannot be injected from outside a node: its clocks, and the syncs of single files.

`preload.c` is a library that is loaded into the node before the C library (LD_PRELOAD), built by gcc when a run needs
it. It replaces clock_gettime, gettimeofday, time, epoll_wait, fsync and fdatasync, and follows a `Page` of memory that
it shares with the harness. Without an instruction there it passes every call on. It counts its effects on the same
page, which shows whether a fault had one. The node is an unmodified program, but the failing sync is made up by the
library, not by the kernel. What the kernel does when a disk fails is tested by `disk-broken`.
"""
