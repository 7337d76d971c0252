"""Run queries of the kinds that tests run, to record the archive of classes that they load: `recorded_queries.py
DIRECTORY`. Ends when Spark's JVM has ended, because the JVM writes the archive at its end
(`jepsen/java/short_lived.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas
from pyspark import SparkContext
from pyspark.sql import functions as f

from jepsen.spark.spark_sessions import start_session

END_SECONDS_MAX = 120


def main(directory: Path) -> None:
    session = start_session(directory)
    frame = session.createDataFrame([(number, str(number)) for number in range(100)], "number int, text string")
    frame.createOrReplaceTempView("numbers")
    session.sql("SELECT text, count(*) FROM numbers WHERE number > 3 GROUP BY text ORDER BY text LIMIT 3").collect()
    frame.join(frame, "number").agg(f.sum("number"), f.max("number")).collect()
    frame.withColumn("doubled", f.udf(lambda number: number * 2, "int")("number")).toPandas()
    session.createDataFrame(pandas.DataFrame({"number": [1, 2]})).count()
    frame.write.parquet(str(directory / "rows"))
    stream = session.readStream.schema(frame.schema).parquet(str(directory / "rows"))
    writer = stream.writeStream.foreachBatch(lambda batch, _: print(batch.count()))
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(END_SECONDS_MAX)
    gateway = SparkContext._gateway
    session.stop()
    assert gateway is not None
    jvm = gateway.proc
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(END_SECONDS_MAX)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
