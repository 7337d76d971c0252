"""Which lines of Spark's processes reach the user."""

from __future__ import annotations

import os

import pytest

from kraft.spark.jobs.java_output import JavaOutput

LOGS = """WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/28 23:01:01 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
Setting default log level to "WARN".
/usr/lib/pyspark/bin/spark-class: line 71: /nope/bin/java: No such file or directory
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
%3|1732834861.123|FAIL|rdkafka#producer-1| [thrd:127.0.0.1:1/bootstrap]: Connect to ipv4#127.0.0.1:1 failed
{"ts":"2026-11-28T23:01:01.1Z","level":"WARN","msg":"x"}
Exception in thread "main" java.lang.IllegalStateException: x
org.apache.spark.SparkException: Job aborted
Caused by: java.io.IOException: x
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""
OURS = "micro-batch 3 of kraft-spark/q/t/ was committed before its driver ended"


@pytest.mark.parametrize("is_whole", [False, True])
def test_java_log_lines_are_suppressed_but_kept_and_job_output_is_passed_on(is_whole: bool) -> None:
    told: list[str] = []
    output = JavaOutput(told.append, is_whole=is_whole)
    for line in [*LOGS.splitlines(), OURS]:
        output.take(line)
    assert told == ([*LOGS.splitlines(), OURS] if is_whole else [OURS])
    assert output.last.endswith(f"main(SparkSubmit.scala); {OURS}")
    output.close_writer()


def test_lines_are_read_from_the_pipe_until_it_closes() -> None:
    told: list[str] = []
    output = JavaOutput(told.append, is_whole=False)
    os.write(output.writer, f"{OURS}\n\xff".encode("latin-1"))
    output.close_writer()
    output.thread.join(10)
    assert told == [OURS, "\ufffd"]
