"""The JVM's `kafka` source beside ours in one session; for the differential tests and the benchmark.

Needs PySpark 4.2.0, the newest that Maven has a connector for.
"""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession

from kafka_direct.testing.jar import spark_kafka_jars

SPARK_VERSION = "4.2.0"


def spark_session() -> SparkSession:
    """A session with both sources."""
    assert pyspark.__version__ == SPARK_VERSION, "the JVM's source is there for PySpark 4.2.0 only: make test-jvm"
    builder = SparkSession.builder.master("local[2]").appName("kafka_direct beside kafka")
    builder.config("spark.jars", spark_kafka_jars())
    for key, value in {"ui.enabled": "false", "log.level": "ERROR", "sql.shuffle.partitions": "2"}.items():
        builder.config(f"spark.{key}", value)
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
