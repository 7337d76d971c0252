"""What cannot be done to a node from outside: its clocks, and the syncs of single files.

`preload.c` is a library that is loaded into the node before the C library (LD_PRELOAD), built by gcc when a run
needs it. It stands in for clock_gettime, gettimeofday, time, epoll_wait, fsync and fdatasync, and does what a `Page`
of memory says that the harness shares with it; as long as the page says nothing it hands every call on. It counts
what it did on the same page, which is how a fault is known to have bitten. The node is an unmodified program all the
same, but the failing sync is one that the library makes up, not the kernel: what the kernel itself does when a disk
fails is `disk-broken`'s part.
"""
