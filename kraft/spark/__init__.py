"""A Spark data source for Kafka topics without jars: `format("kraft")`.

The package holds the PySpark `DataSource` with its batch reader, stream reader and sinks, the planning (pure), and the
clients that read and write. Options are those of Spark's own Kafka connector, with the same names and meanings; only
the format's name differs. Rows are Arrow record batches with the official schema. Offsets have the official JSON form.
Not supported: continuous mode (Spark's Python API has none) and consumer-group membership. A stream can be a member of
a share group.

    import kraft.spark
    kraft.spark.register(spark)
    spark.read.format("kraft").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "flights").load()

The code runs inside Spark's Python processes. So it uses the platform's clock and sockets, not the ports of kraft's
world.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

FORMAT = "kraft"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Whether Spark passes a query's filters to Python sources. Spark's default is false."""
WORKERS_INTERPRETER = "PYSPARK_PYTHON"
"""The environment variable with the interpreter of Spark's Python workers. Without it they run `python3`."""


def register(spark: SparkSession) -> None:
    """Register `format("kraft")` with this session. A repeated call changes nothing. If Spark has discovered the same
    source itself (`pyspark_kraft`), nothing is registered, because Spark would log that one replaced the other.

    With a local master the workers use the interpreter of this process, unless PYSPARK_PYTHON names another one. The
    `python3` of the PATH may lack kraft. Filter pushdown to Python sources is enabled, unless the session sets it.
    """
    from kraft.spark.data_source import KraftDataSource

    context = getattr(spark, "_sc", None)  # A session of Spark Connect has none: its workers are not on this machine.
    if context is not None and context.master.startswith("local") and WORKERS_INTERPRETER not in os.environ:
        context.pythonExec = sys.executable
    if context is None or not _is_registered(spark, context, KraftDataSource):
        spark.dataSource.register(KraftDataSource)
    if PUSHDOWN not in spark.conf.getAll:
        spark.conf.set(PUSHDOWN, "true")


def _is_registered(spark: SparkSession, context: SparkContext, source: type[Any]) -> bool:
    """Whether this session has already registered `source` as `kraft`, with the interpreter that `register` would set.
    False if this version of Spark has no API to find out."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.serializers import CloudPickleSerializer

    try:
        sources = spark._jsparkSession.sessionState().dataSourceManager()
        if not sources.dataSourceExists(FORMAT):
            return False
        function = sources.lookupDataSource(FORMAT).dataSourceCls()
        pickled = bytes(function.command().toArray(context._jvm.scala.reflect.ClassTag.Byte()))  # type: ignore[union-attr]
        interpreter = str(function.pythonExec())
    except (Py4JError, AttributeError):
        return False
    is_same = pickled == CloudPickleSerializer().dumps(source)  # type: ignore[no-untyped-call]
    return is_same and _installation(interpreter) == _installation(context.pythonExec)


def _installation(interpreter: str) -> Path | None:
    """The directory of an interpreter, which identifies its environment and packages. Links are not followed: the
    interpreters of all virtual environments may be links to the same file."""
    found = shutil.which(interpreter)
    return Path(found).parent.resolve() if found else None
