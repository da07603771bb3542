"""A real HDFS for tests, without Docker: a NameNode and a DataNode in one process, from Maven's jars, fetched once.

    with LocalHdfs() as hdfs:
        SparkConf().setAll(hdfs.spark_conf().items())
        checkpoint = f"{hdfs.uri}/checkpoint"

`kill()`, `restart()`, `freeze()` and `thaw()` are its faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .jar import LOGGER_VERSION, Wanted, fetched_jars
from .java import find_java
from .node import HOST
from .server import Server

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "3.4.2"
HADOOP = "org.apache.hadoop"
MANAGER = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
JAVA_OPTIONS = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class LocalHdfs(Server):
    """A NameNode and a DataNode, whose superuser is the user of this process; a context manager.

    What was written before `kill()` is there after `restart()`. A JVM that had a connection fails with an EOFException
    at its first call after that, and the next call connects again. The first use downloads 92 MB.

    Raises:
        KafkaStartError: no Java, no jars, or it does not start; the text has the last lines of its log.
    """

    name = "hdfs"

    @property
    def uri(self) -> str:
        """The root, as `hdfs://127.0.0.1:port`."""
        self._started()
        return f"hdfs://{HOST}:{self._port}"

    def spark_conf(self) -> dict[str, str]:
        """What Spark must know: there is one DataNode for one copy of each block."""
        return {"spark.hadoop.dfs.replication": "1"}

    def _prepare(self) -> None:
        self._java = [find_java(), *JAVA_OPTIONS, "-cp", str(hadoop_jars() / "*")]

    def _command(self, *, is_first: bool) -> list[str]:
        # The file is written once the cluster is up and out of safe mode.
        self._details.unlink(missing_ok=True)
        data = f"-Dtest.build.data={self._folder / 'hdfs-data'}"
        options = ["-nomr", "-datanodes", "1", "-nnport", str(self._port), "-writeDetails", str(self._details)]
        return [*self._java, data, MANAGER, *options, *(["-format"] if is_first else [])]

    def _is_up(self) -> bool:
        return self._details.exists()

    @property
    def _details(self) -> Path:
        return self._folder / "hdfs-details.json"


def hadoop_jars() -> Path:
    """The folder of jars. Hadoop's test cluster needs the test libraries as well."""
    modules = (
        (HADOOP, "hadoop-client-minicluster", VERSION),
        (HADOOP, "hadoop-client-runtime", VERSION),
        (HADOOP, "hadoop-client-api", VERSION),
        ("commons-logging", "commons-logging", "1.3.0"),
        ("org.slf4j", "slf4j-api", LOGGER_VERSION),
        ("org.slf4j", "slf4j-simple", LOGGER_VERSION),
        ("junit", "junit", "4.13.2"),
        ("org.hamcrest", "hamcrest-core", "1.3"),
        ("org.mockito", "mockito-core", "4.11.0"),
        ("net.bytebuddy", "byte-buddy", "1.12.19"),
        ("net.bytebuddy", "byte-buddy-agent", "1.12.19"),
        ("org.objenesis", "objenesis", "3.3"),
    )
    return fetched_jars(Wanted(f"hadoop-minicluster-{VERSION}", f"HDFS {VERSION}", "92 MB", modules))
