"""Shows the three best-selling products of each category, by Spark SQL on each batch.

    spark-submit examples/best_products.py localhost:9092 sales

A record is `product category price`. Each batch becomes a DataFrame, and SQL ranks its products by their turnover. A
number as the last argument ends the program after so many batches.
"""

import sys

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.sql import Row, SparkSession
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream

BEST = """
    SELECT category, product, turnover FROM (
        SELECT category, product, turnover,
               row_number() OVER (PARTITION BY category ORDER BY turnover DESC, product) AS place
        FROM (SELECT category, product, sum(price) AS turnover FROM sales GROUP BY category, product))
    WHERE place <= 3 ORDER BY category, place
"""


def as_row(record):
    product, category, price = record[1].split()
    return Row(product=product, category=category, price=float(price))


def show_best(time, rdd):
    if rdd.isEmpty():
        return
    spark = SparkSession.builder.getOrCreate()  # the one of this SparkContext
    spark.createDataFrame(rdd.map(as_row)).createOrReplaceTempView("sales")
    print(f"best products of {time}")
    spark.sql(BEST).show()


def main(brokers, topic, batches=None):
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("best products")), 1)
    stream = createDirectStream(ssc, [topic], {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"})
    stream.foreachRDD(show_best)
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
