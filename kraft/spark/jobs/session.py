"""A Spark session for a job: with little logging, this process's Python, and `format("kraft")` registered."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import kraft.spark
from kraft.common.errors import KraftError
from kraft.spark.jobs.java_output import JavaOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkMissing(KraftError):
    """Raised when pyspark or Java is not installed. The message says what to do."""


LEVEL = "spark.log.level"
"""With this setting, Spark's logs are shown."""


@contextmanager
def spark_session(master: str, settings: dict[str, str], tell: Callable[[str], None]) -> Iterator[SparkSession]:
    """Create a Spark session, and stop it at the end. `tell` is called with each line on the stderr of Spark's
    processes that is not a log line; if `settings` has LEVEL, with every line. Raises SparkMissing."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise SparkMissing("pyspark is not installed: pip install 'kraft-node[spark]'") from problem
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("kraft spark")
    conf = conf.setAll([*quiet.items(), *settings.items()])
    output = JavaOutput(tell, is_whole=LEVEL in settings)
    try:
        if SparkContext._gateway is None:  # The JVM inherits stderr as it starts.
            launch: Any = launch_gateway
            started = launch(conf, popen_kwargs={"stderr": output.writer})
            SparkContext._ensure_initialized(gateway=started)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkRuntimeError as problem:
        raise SparkMissing(f"Spark did not start (it needs Java 17 or newer): {output.last or problem}") from problem
    finally:
        output.close_writer()
    try:
        if LEVEL not in settings:
            session.sparkContext.setLogLevel("OFF")
        kraft.spark.register(session)
        yield session
    finally:
        session.stop()
