"""The Spark session of a benchmark: two cores, with Spark's own `kafka` source if it can be downloaded."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from kafka_direct.testing.error import KafkaStartError
from kafka_direct.testing.jar import spark_kafka_jars


def prepare():
    """Make Spark's workers use this Python and this tree; before any PySpark import."""
    root = str(Path(__file__).resolve().parent.parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    warnings.filterwarnings("ignore", category=FutureWarning)


def start(cores=2):
    """A SparkSession, and whether it knows the source `kafka`."""
    from pyspark.sql import SparkSession

    try:
        jars = spark_kafka_jars()
    except KafkaStartError:
        jars = None
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", str(cores))
    )
    if jars is not None:
        builder = builder.config("spark.jars", jars)
    return builder.getOrCreate(), jars is not None
