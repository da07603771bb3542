"""The JVM's `kafka` source beside ours in one session; for the differential tests and the benchmark.

Needs PySpark 4.2.0, the newest that Maven has a connector for.
"""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession

from kafka_direct.testing.jar import fetched_jars
from kafka_direct.testing.java import find_java

SPARK_VERSION = "4.2.0"
MODULES = {
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13"): SPARK_VERSION,
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13"): "4.0.0",
    ("org.apache.kafka", "kafka-clients"): "3.9.1",
    ("org.apache.commons", "commons-pool2"): "2.12.1",
}
WANTED = (
    '<ivy-module version="2.0"><info organisation="kafka_direct" module="jvm_source"/><dependencies>'
    + "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->master" transitive="false"/>'
        for (organisation, name), version in MODULES.items()
    )
    + "</dependencies></ivy-module>"
)


def spark_session() -> SparkSession:
    """A session with both sources."""
    assert pyspark.__version__ == SPARK_VERSION, "the JVM's source is there for PySpark 4.2.0 only: make test-jvm"
    name = f"spark-sql-kafka-{SPARK_VERSION}"
    jars = fetched_jars(find_java(), name, WANTED, "Spark's kafka source", "10 MB")
    builder = SparkSession.builder.master("local[2]").appName("kafka_direct beside kafka")
    builder.config("spark.jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))))
    for key, value in {"ui.enabled": "false", "log.level": "ERROR", "sql.shuffle.partitions": "2"}.items():
        builder.config(f"spark.{key}", value)
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
