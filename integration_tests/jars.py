"""Java code that only these tests need, fetched by the Ivy in PySpark's jars and kept in the user's cache."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from kafka_direct.testing.jar import KAFKA_VERSION, _ivy, _publish, cache_folder, kafka_jars
from kafka_direct.testing.java import find_java

# Spark's own `kafka` source; on Maven with this version, which also runs on Spark 4.3.
SPARK_KAFKA = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)
KAFKA_TOOLS = (("org.apache.kafka", "kafka-tools", KAFKA_VERSION),)

_WANTED = '<dependency org="{}" name="{}" rev="{}" transitive="false" conf="default->default"/>'


def spark_kafka_jars():
    """The paths of the jars of Spark's `kafka` source."""
    return sorted(map(str, _fetch("spark-sql-kafka-4.2.0", SPARK_KAFKA).glob("*.jar")))


def kafka_tools_classpath():
    """What `kafka-consumer-groups.sh` runs with."""
    return f"{_fetch(f'kafka-tools-{KAFKA_VERSION}', KAFKA_TOOLS)}/*:{kafka_jars(find_java())}/*"


def _fetch(name, modules):
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
        wanted = Path(scratch, "ivy.xml")
        dependencies = "".join(_WANTED.format(*module) for module in modules)
        wanted.write_text(
            f'<ivy-module version="2.0"><info organisation="kafka_direct" module="tests"/>'
            f"<dependencies>{dependencies}</dependencies></ivy-module>"
        )
        command = [find_java(), f"-Divy.default.ivy.user.dir={scratch}/user", "-cp", str(_ivy()), "org.apache.ivy.Main"]
        command += ["-cache", f"{scratch}/cache", "-ivy", str(wanted), "-types", "jar", "bundle"]
        command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout[-3000:]
        _publish(Path(scratch, "jars"), folder)
    return folder
