"""A query from a topic into another, each row once, which `test_once_kill.py` kills."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from kafka_direct.pyspark_names import tells_triggers


def main(servers: str, source: str, target: str, folder: str, *, is_last: bool) -> None:
    builder = SparkSession.builder.master("local[2, 4]").appName("once_job")  # a task may be tried four times
    for key, value in {"ui.enabled": "false", "log.level": "ERROR", "ui.showConsoleProgress": "false"}.items():
        builder.config(f"spark.{key}", value)
    spark = builder.getOrCreate()
    reader = spark.readStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    reader = reader.option("trigger", "availableNow" if is_last else "processingTime")  # asked for before PySpark 4.2
    frame = reader.option("maxOffsetsPerTrigger", "90").load().selectExpr("key", "value")
    writer = frame.writeStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", target).option("transactional", "once-job")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    trigger = {"availableNow": True} if is_last else {"processingTime": "100 milliseconds"}
    # Before PySpark 4.2 a run is one batch: the unfinished one, and the rest.
    for _ in range(2 if is_last and not tells_triggers() else 1):
        writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:5], is_last=sys.argv[5] == "last")
