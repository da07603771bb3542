"""The ground of the differential tests: a session with both sources, and a real Kafka."""

from __future__ import annotations

import os
import sys

import pytest

from kafka_direct.testing import pytest_plugin

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
SPARK_VERSION = "4.2.0"  # the newest that Maven has a connector for


def pytest_configure(config):
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin)


@pytest.fixture(scope="session")
def session():
    """A SparkSession with both sources."""
    import pyspark
    from pyspark.sql import SparkSession

    from kafka_direct.testing.jar import spark_kafka_jars

    assert pyspark.__version__ == SPARK_VERSION, "the JVM's source is there for PySpark 4.2.0 only: make test-jvm"
    builder = SparkSession.builder.master("local[2]").appName("kafka_direct beside kafka")
    builder.config("spark.jars", spark_kafka_jars())
    for key, value in {"ui.enabled": "false", "log.level": "ERROR", "sql.shuffle.partitions": "2"}.items():
        builder.config(f"spark.{key}", value)
    started = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    yield started
    started.stop()
