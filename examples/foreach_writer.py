"""Writes each row by a Python class with `foreach`, in the workers: here into a file for each task.

    spark-submit examples/foreach_writer.py localhost:9092 words /tmp/foreach-writer

Spark calls `open` for each partition of each batch, `process` for each row and `close` at the end. A task that runs
again has the same numbers, so it writes the same file: this output holds each record once. The program processes what
is there, and ends.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession


class FileWriter:
    def __init__(self, folder):
        self.folder = folder

    def open(self, partition_id, epoch_id):
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        self.path = Path(self.folder, f"{epoch_id}-{partition_id}.txt")
        self.lines = []
        return True  # False would leave this partition out

    def process(self, row):
        self.lines.append(f"{row.topic} {row.partition} {row.offset} {row.value.decode()}\n")

    def close(self, error):
        if error is None:
            self.path.write_text("".join(self.lines))


def main(brokers, topic, folder):
    spark = SparkSession.builder.appName("foreach writer").getOrCreate()
    records = (
        spark.readStream.format("kafka_direct")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        records.writeStream.foreach(FileWriter(f"{folder}/records"))
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
