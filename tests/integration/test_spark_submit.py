"""What `spark-submit` of a program that reads and writes topics says, beside Spark's own words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.clusters import Cluster
from tests.integration.spark_commands import Sent, send, values

pytestmark = [pytest.mark.spark, pytest.mark.java]
PROGRAM = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
here = {"kafka.bootstrap.servers": sys.argv[1]}
print(spark.read.format("kraft").options(**here, subscribe="submitted").load().count())
rows = spark.readStream.format("kraft").options(**here, subscribe="submitted", startingOffsets="earliest").load()
writer = rows.select("key", "value").writeStream.format("kraft").options(**here, topic="submitted-copy")
query = writer.option("checkpointLocation", sys.argv[2])
query.trigger(availableNow=True).start().awaitTermination()
query = query.trigger(processingTime="100 milliseconds").start()
query.processAllAvailable()
query.stop()
"""
WARNINGS_ONLY = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = LOG %p %c: %m%n
"""
OF_SPARK = re.compile(r"LOG WARN org\.apache\.(spark|hadoop)\.|WARNING: Using incubator modules: |Picked up ")


@pytest.mark.timeout(180)
def test_a_submitted_program_that_reads_and_writes_topics_adds_nothing_to_what_spark_says(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create("submitted", 2)
    send(cluster, "submitted", [Sent(b"%d" % number) for number in range(10)])
    program, settings = tmp_path / "program.py", tmp_path / "log4j2.properties"
    program.write_text(PROGRAM)
    settings.write_text(WARNINGS_ONLY)
    options = ["--master", "local[2]", "--driver-java-options", f"-Dlog4j2.configurationFile=file://{settings}"]
    done = subprocess.run(
        [Path(sys.executable).parent / "spark-submit", *options, program, cluster.bootstrap, tmp_path / "state"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr
    assert [line for line in done.stderr.splitlines() if not OF_SPARK.match(line)] == []
    assert len(values(cluster, "submitted-copy")) == 10
