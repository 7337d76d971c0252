"""A Spark data source for Kafka topics without jars: `format("kraft")`.

Lives here: the PySpark `DataSource` with its batch reader, stream reader and sinks, planning (pure), and the clients
that read and write. Enters: the options of Spark's own Kafka connector, under the same names and with the same
meaning; only the format's name changes. Leaves: Arrow record batches with the official row schema, offsets in the
official JSON shape. Deliberately absent: continuous mode (Spark's Python API has none) and any use of consumer-group
membership.

    import kraft.spark
    kraft.spark.register(spark)
    spark.read.format("kraft").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "flights").load()

It runs inside Spark's Python processes, so it takes time and sockets from the platform and not from kraft's world.
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
"""Whether Spark tells Python sources a query's filters. Its default is false."""
WORKERS_INTERPRETER = "PYSPARK_PYTHON"
"""The variable by which Spark is told the interpreter of its Python workers. Without it they run `python3`."""


def register(spark: SparkSession) -> None:
    """Make `format("kraft")` known to this session. Calling it again changes nothing. Where Spark has found the same
    source by itself (`pyspark_kraft`), nothing is registered: Spark would log that one replaced the other.

    With a local master the workers get the interpreter of this process, unless PYSPARK_PYTHON names another one:
    the `python3` of the PATH may be one that does not have kraft. Filters are handed to Python sources from here on,
    unless the session says whether they are.
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
    """Whether the session's `kraft` is `source`, run by the interpreter that registering it would give it. False for
    a Spark that does not let this be asked."""
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
    """The directory of an interpreter, whose packages are those of its environment. Its target is not followed: the
    interpreters of all virtual environments may be links to the same one."""
    found = shutil.which(interpreter)
    return Path(found).parent.resolve() if found else None
