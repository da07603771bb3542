"""Puts the names of products beside the sales of a stream: a join with a table that does not stream.

    spark-submit examples/stream_static_join.py localhost:9092 sales products.csv

A record is `product price`; the file has the columns product and name. A record whose product is not in the file has no
name. The program processes what is there, and ends.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, split


def main(brokers, topic, products):
    spark = SparkSession.builder.appName("join").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    names = spark.read.csv(products, header=True, schema="product STRING, name STRING")
    records = (
        spark.readStream.format("kafka_direct")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    parts = split(col("value").cast("string"), " ")
    sales = records.select("offset", parts[0].alias("product"), parts[1].cast("double").alias("price"))
    query = (
        sales.join(names, "product", "left")
        .writeStream.foreachBatch(lambda batch, _: batch.select("product", "name", "price").sort("offset").show())
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
