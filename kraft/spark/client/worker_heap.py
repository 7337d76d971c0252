"""What Spark's Python workers do between tasks: the daemon runs a full garbage collection in each before it may take
the next task.

With pyarrow, pandas and this package imported that walks a few hundred thousand objects that never become garbage,
and takes longer than reading a small range: a micro-batch with more tasks than cores waited for it. The processes in
which Spark makes a sink and commits a micro-batch do the same, 30 ms each. Frozen objects are not walked.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_imports() -> None:
    """Keep the garbage collector from walking what a worker's first task imported. Once per process: what tasks make
    later is collected as before.

    Whether it was done is remembered, not asked: `gc.get_freeze_count` walks all that is frozen, 9 ms.
    """
    gc.collect()
    gc.freeze()
