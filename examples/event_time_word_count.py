"""Counts words by the time that stands in the record, in windows of 10 seconds; what comes too late is left out.

    spark-submit examples/event_time_word_count.py localhost:9092 words /tmp/event-times

A record is `time word`, as in `2026-11-18T10:00:05 apple`. With a watermark of 10 seconds a window is complete, and its
row is written, when a record has come that is 10 seconds newer than the window's end; what comes for it after that is
late. The program processes what is there, ten records at a time, and ends. The next run goes on in the same folder.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, split, window


def main(brokers, topic, folder):
    spark = SparkSession.builder.appName("event times").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    records = (
        spark.readStream.format("kafka_direct")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10)
        .load()
    )
    parts = split(col("value").cast("string"), " ")
    words = records.select(parts[0].cast("timestamp").alias("time"), parts[1].alias("word"))
    counts = words.withWatermark("time", "10 seconds").groupBy(window("time", "10 seconds"), "word").count()
    query = (
        counts.select("window.start", "word", "count")
        .writeStream.outputMode("append")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .format("json")
        .option("path", f"{folder}/counts")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.schema("start TIMESTAMP, word STRING, count LONG").json(f"{folder}/counts").sort("start", "word").show()


if __name__ == "__main__":
    main(*sys.argv[1:])
