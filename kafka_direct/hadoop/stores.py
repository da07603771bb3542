"""`HadoopStores`: the file systems of one JVM, each opened once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.store.local import LocalStore, local_path
from kafka_direct.offsets.store.store import SCHEME, Location, public

from .failure import translated
from .store import HadoopStore

if TYPE_CHECKING:
    from collections.abc import Mapping

# Hadoop waits for minutes, in one call, for a store that is away. A stream waits itself, and says so. Measured with
# these settings: a killed NameNode or an S3 that answers 503 is noticed at once, a frozen one after 10 or 15 s.
SETTINGS: Mapping[str, str] = {
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.max.retries.on.timeouts": "0",
    "ipc.client.connect.timeout": "10000",
    "ipc.client.rpc-timeout.ms": "10000",
    # A file that is closed a moment before its DataNode has reported it makes HDFS sleep for so many milliseconds: with
    # Hadoop's 400 a write takes 408 ms, with 10 it takes 33.
    "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    "dfs.client.block.write.locateFollowingBlock.retries": "11",
    "fs.s3a.attempts.maximum": "0",
    "fs.s3a.retry.limit": "0",
    "fs.s3a.retry.throttle.limit": "0",
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.connection.timeout": "15s",
    "fs.s3a.connection.request.timeout": "15s",
    "fs.s3a.input.stream.type": "classic",  # the default one keeps what it has read, and returns it after an overwrite
}


class HadoopStores:
    """`configuration` is Spark's, with `spark.hadoop.*` in it; a copy is used, with waits that end soon.

    What the user has set stays as it is.
    """

    def __init__(self, gateway: Any, configuration: Any) -> None:
        self._gateway = gateway
        self._given = configuration
        self._configuration: Any = None
        self._stores: dict[str, HadoopStore] = {}
        self._open: list[Any] = []

    def locate(self, uri: str) -> Location:
        """The store and the folder of a path or URI, as `offsets.store.store.locate` has them without a JVM.

        Raises:
            ConfigError: Hadoop has no file system for the URI.
        """
        path = local_path(uri)
        if path is not None:
            return Location(LocalStore(), path)
        scheme = SCHEME.match(uri)
        assert scheme is not None, "otherwise it is a local path"
        place = uri[: scheme.end()] + uri[scheme.end() :].removeprefix("/").partition("/")[0]
        if place not in self._stores:
            self._stores[place] = HadoopStore(self._gateway, self._filesystem(uri), scheme[1])
        return Location(self._stores[place], uri.rstrip("/"))

    def require(self, uri: str) -> None:
        """Check that Spark itself reaches its checkpoint: after an outage its old connection fails once.

        Raises:
            StoreUnavailable: it does not.
        """
        if local_path(uri) is None:
            hadoop = self._gateway.jvm.org.apache.hadoop.fs
            with translated(uri):
                hadoop.FileSystem.get(hadoop.Path(uri).toUri(), self._given).exists(hadoop.Path(uri))

    def close(self) -> None:
        for filesystem in self._open:
            with suppress(Exception):  # the JVM may have ended, and nothing is left to write
                filesystem.close()
        self._open.clear()
        self._stores.clear()

    def _filesystem(self, uri: str) -> Any:
        jvm = self._gateway.jvm
        if self._configuration is None:
            self._configuration = bounded(jvm, self._given)
        try:
            with translated(uri):
                path = jvm.org.apache.hadoop.fs.Path(uri)
                filesystem = jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), self._configuration)
        except OSError as error:
            if "No FileSystem for scheme" in str(error) or "ClassNotFound" in str(error):
                raise ConfigError(
                    f"Spark's JVM has no file system for {public(uri)} ({error}); add its jar with "
                    "spark.jars.packages, such as org.apache.hadoop:hadoop-aws for s3a."
                ) from None
            raise
        self._open.append(filesystem)
        return filesystem


def bounded(jvm: Any, configuration: Any) -> Any:
    """A copy of a Hadoop configuration in which no wait is long, unless the user has set it."""
    copy = jvm.org.apache.hadoop.conf.Configuration(configuration)
    for key, value in SETTINGS.items():
        sources = copy.getPropertySources(key)
        if sources is None or str(list(sources)[-1]).endswith("-default.xml"):
            copy.set(key, value)
    return copy
