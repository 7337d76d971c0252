"""Keep the garbage collector of Spark's Python workers away from imported objects. The daemon runs a full collection in
each worker before its next task.

With pyarrow, pandas and this package imported, a collection walks a few hundred thousand objects that never become
garbage. It takes longer than reading a small range, so a micro-batch with more tasks than cores waited for it. The
processes in which Spark creates a sink and commits a micro-batch also collect, 30 ms each. Frozen objects are not
walked.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_imports() -> None:
    """Freeze the objects that a worker's first task imported, so that the garbage collector does not walk them. Done
    once per process. Objects that later tasks create are collected as before.

    A flag remembers the freeze, because `gc.get_freeze_count` walks all frozen objects, which takes 9 ms.
    """
    gc.collect()
    gc.freeze()
