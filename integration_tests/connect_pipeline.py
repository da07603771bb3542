"""A pipeline of Spark's: tables and a view from Kafka, and a sink to Kafka. `test_connect.py` runs it."""

import os

from pyspark import pipelines
from pyspark.sql import SparkSession

spark = SparkSession.active()
BROKERS = {"kafka.bootstrap.servers": os.environ["SERVERS"]}
FROM = BROKERS | {"subscribe": os.environ["TOPIC"], "startingOffsets": "earliest"}


@pipelines.table
def orders():
    return spark.readStream.format("kafka_direct").options(**FROM).schema("value STRING").load()


@pipelines.materialized_view
def counted():
    return spark.read.format("kafka_direct").options(**FROM).load().groupBy("topic").count()


pipelines.create_sink("enriched", "kafka_direct", BROKERS | {"topic": os.environ["OUT"]})


@pipelines.append_flow(target="enriched")
def enrich():
    return spark.readStream.table("orders").selectExpr("upper(value) AS value")
