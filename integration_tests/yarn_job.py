"""A stream or a query from a topic into another, each record once, as `spark-submit --master yarn` runs it.

It ends when the file `stop` is there. Each record that is written is the partition and the offset that it had, and the
host's name for the worker's copy of the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import kafka_direct
from kafka_direct.sinks import KafkaSink


def place(message):
    """Which record it was, and what read it."""
    return None, f"{message.partition}:{message.offset} {sys.executable} {kafka_direct.__file__}"


def run_stream(servers, source, target, checkpoint, stop):
    from pyspark import SparkContext
    from pyspark.streaming import StreamingContext

    def create():
        ssc = StreamingContext(SparkContext(), 0.5)
        ssc.checkpoint(checkpoint)
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        stream = kafka_direct.createDirectStream(ssc, [source], params, messageHandler=place, name="yarn")
        sink = KafkaSink({"bootstrap.servers": servers}, target, name=f"{target}-group")
        stream.foreachRDD(sink.save_partitions)
        return ssc

    ssc = StreamingContext.getOrCreate(checkpoint, create)
    ssc.start()
    while not Path(stop).exists():
        ssc.awaitTerminationOrTimeout(0.2)
    ssc.stop(True, True)


def run_query(servers, source, target, checkpoint, stop):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    reader = spark.readStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    frame = frame.selectExpr("CAST(NULL AS STRING) AS key", "concat(partition, ':', offset) AS value")
    writer = frame.writeStream.format("kafka_direct").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", target).option("transactional", f"{target}-query")
    query = writer.option("checkpointLocation", checkpoint).start()
    while not Path(stop).exists():
        query.awaitTermination(0.2)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    {"stream": run_stream, "query": run_query}[sys.argv[1]](*sys.argv[2:])
