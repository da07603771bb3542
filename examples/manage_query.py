"""What one can ask a running query, and how it stops: by `stop()`, or by an error.

    spark-submit examples/manage_query.py localhost:9092 numbers

It adds up the records, which are numbers. When it has processed what is there it is stopped; a second query fails on
the first record, and its error is shown. Then the program ends.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryException


def fail(batch, number):
    raise ValueError(f"batch {number} cannot be stored")


def main(brokers, topic):
    spark = SparkSession.builder.appName("manage").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    records = (
        spark.readStream.format("kafka_direct")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    total = records.selectExpr("sum(CAST(CAST(value AS STRING) AS INT)) AS total")
    query = total.writeStream.queryName("totals").outputMode("complete").format("memory").start()
    print("running:", [query.name for query in spark.streams.active])
    query.processAllAvailable()
    print("total:", spark.table("totals").first().total)
    print("status:", query.status["message"])
    progress = query.lastProgress  # None until the first batch has ended
    print("last batch:", progress["batchId"], "of", progress["sources"][0]["description"])
    query.stop()
    print("active after stop:", query.isActive)

    failing = records.writeStream.foreachBatch(fail).start()
    try:
        failing.awaitTermination()
    except StreamingQueryException:
        print("failed:", "cannot be stored" in str(failing.exception()))


if __name__ == "__main__":
    main(*sys.argv[1:])
