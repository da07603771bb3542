"""Spark's own `kafka` source, which we are measured against: its jars, fetched once by the Ivy in PySpark's jars."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from kafka_direct.testing.jar import _ivy, _publish, cache_folder
from kafka_direct.testing.java import find_java

VERSION = "4.2.0"
MODULES = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)

_WANTED = '<dependency org="{}" name="{}" rev="{}" transitive="false" conf="default->default"/>'


def connector_jars():
    """The paths of the jars, comma-separated as `spark.jars` wants them; None where they cannot be had."""
    folder = cache_folder() / f"spark-sql-kafka-{VERSION}"
    if not folder.is_dir() and not _fetch(folder):
        return None
    return ",".join(sorted(map(str, folder.glob("*.jar"))))


def _fetch(folder):
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-", ignore_cleanup_errors=True) as scratch:
        wanted = Path(scratch, "ivy.xml")
        dependencies = "".join(_WANTED.format(*module) for module in MODULES)
        wanted.write_text(
            '<ivy-module version="2.0"><info organisation="kafka_direct" module="benchmarks"/>'
            f"<dependencies>{dependencies}</dependencies></ivy-module>"
        )
        command = [find_java(), f"-Divy.default.ivy.user.dir={scratch}/user", "-cp", str(_ivy()), "org.apache.ivy.Main"]
        command += ["-cache", f"{scratch}/cache", "-ivy", str(wanted), "-types", "jar", "bundle"]
        command += ["-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        _publish(Path(scratch, "jars"), folder)
    return True
