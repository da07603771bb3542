"""`Jvm`: a JVM of the installed PySpark, whose Hadoop has the file systems. It ends with the command.

It is started as a Spark program would start it, so spark-defaults.conf, SPARK_HOME, HADOOP_CONF_DIR and
PYSPARK_SUBMIT_ARGS count. It gets no secret on its command line: settings go through py4j.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.store.store import public

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

END_SECONDS = 5


class Jvm:
    """A running JVM. `close()` ends it; if this process is killed, it sees the end of its standard input and ends."""

    def __init__(self, *, packages: str | None = None, conf_dir: str | None = None) -> None:
        logging.getLogger("py4j").addHandler(logging.NullHandler())  # without a handler Python prints its warnings
        with tempfile.TemporaryFile() as log:
            self.gateway = _launch(log, packages, conf_dir)

    def configuration(self, settings: Mapping[str, str]) -> Any:
        """Hadoop's configuration as Spark has it, `spark.hadoop.*` included, and these settings above it."""
        jvm = self.gateway.jvm
        util = jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
        configuration = util.newConfiguration(jvm.org.apache.spark.SparkConf())
        for key, value in settings.items():
            configuration.set(key, value, "--hadoop-conf")
        return configuration

    def kill(self) -> None:
        if self.gateway.proc is not None:
            self.gateway.proc.kill()

    def close(self) -> None:
        process = self.gateway.proc
        if process is None:
            return  # it belongs to the program that started this one
        with suppress(Exception):  # it may have ended
            self.gateway.shutdown()
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # a call to a store that does not answer keeps it alive
            process.kill()
            process.wait()


def has_java() -> bool:
    """Whether Spark's scripts find a `java`."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin")) if home else None) is not None


def _launch(log: IO[bytes], packages: str | None, conf_dir: str | None) -> Any:
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415  only a command that needs a JVM waits for it
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    conf = None if packages is None else _Conf({"spark.jars.packages": packages})
    try:
        with _environment(conf_dir):
            return launch_gateway(conf, {"stdout": log, "stderr": log})
    except (PySparkRuntimeError, OSError) as error:
        log.seek(0)
        said = _reason(log.read().decode("utf-8", "replace")) or error
        raise ConfigError(
            f"Spark's JVM did not start ({public(str(said))}); repair that, or add --no-jvm, with which show and "
            "export reach s3, gs and abfs."
        ) from None


class _Conf:
    """Settings in the form that `launch_gateway` takes."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def getAll(self) -> list[tuple[str, str]]:
        return list(self._settings.items())


@contextmanager
def _environment(conf_dir: str | None) -> Iterator[None]:
    """Start a JVM with that folder on its class path. `launch_gateway` copies the environment of this process."""
    before = os.environ.get("HADOOP_CONF_DIR")
    if conf_dir is not None:
        os.environ["HADOOP_CONF_DIR"] = str(Path(conf_dir).absolute())
    try:
        yield
    finally:
        if conf_dir is not None:
            os.environ.pop("HADOOP_CONF_DIR")
            if before is not None:
                os.environ["HADOOP_CONF_DIR"] = before


def _reason(log: str) -> str | None:
    """The line that says why, of what a JVM logged before it ended."""
    lines = [line.strip(" \t:") for line in log.splitlines() if line.strip(" \t:")]
    told = [line for line in lines if "not found" in line or "Exception" in line or "Error" in line]
    return next(iter(told or lines[-1:]), None)
