"""Counts words in each of the output modes: which rows of the result does a query write after a batch?

    spark-submit examples/output_modes.py localhost:9092 words complete

complete: all rows, each time. update: the rows that have changed. append: rows that will never change again; counts may
always change, so this mode writes the words themselves. The program processes what is there, two records at a time, and
ends.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, explode, split


def show(batch, number):
    rows = sorted(tuple(row) for row in batch.collect())
    print(f"batch {number}: {rows}")


def main(brokers, topic, mode):
    spark = SparkSession.builder.appName("output modes").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    records = (
        spark.readStream.format("kafka_direct")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2)
        .load()
    )
    words = records.select(explode(split(col("value").cast("string"), " ")).alias("word"))
    result = words if mode == "append" else words.groupBy("word").count()
    query = result.writeStream.outputMode(mode).foreachBatch(show).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
