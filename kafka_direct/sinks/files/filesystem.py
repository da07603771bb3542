"""Which file systems rename a folder at once: Spark's, seen through what lies over them.

| file systems | a folder is renamed |
|---|---|
| local, hdfs, webhdfs, maprfs, adl | at once |
| abfs | at once, if the account has a hierarchical namespace |
| s3a, gs, wasb and other object stores | file by file, so a reader would see a part of a batch |
| others | nobody knows, which is said once |

A path does not say what it leads to: without a scheme it is on `fs.defaultFS`, a scheme may stand for another one's
class, and viewfs has mounts.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from kafka_direct.errors import ConfigError
from kafka_direct.hadoop.failure import translated
from kafka_direct.offsets.store.store import SCHEME, public

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

AT_ONCE = {"file", "hdfs", "webhdfs", "swebhdfs", "maprfs", "adl"}
FILE_BY_FILE = {"s3", "s3a", "s3n", "gs", "wasb", "wasbs", "oss", "cos", "cosn", "obs", "bos", "tos", "oci", "swift"}
AZURE = {"abfs", "abfss"}

_HADOOP = "org.apache.hadoop.fs"
# A class may be given any scheme (`fs.<scheme>.impl`), and some then give that as their own.
CLASSES = {
    f"{_HADOOP}.RawLocalFileSystem": "file",
    "org.apache.hadoop.hdfs.DistributedFileSystem": "hdfs",
    f"{_HADOOP}.s3a.S3AFileSystem": "s3a",
    "com.amazon.ws.emr.hadoop.fs.EmrFileSystem": "s3",
    f"{_HADOOP}.gs.GoogleHadoopFileSystem": "gs",
    "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem": "gs",
    f"{_HADOOP}.azurebfs.AzureBlobFileSystem": "abfs",
    f"{_HADOOP}.azure.NativeAzureFileSystem": "wasb",
    f"{_HADOOP}.aliyun.oss.AliyunOSSFileSystem": "oss",
    f"{_HADOOP}.CosFileSystem": "cosn",
    f"{_HADOOP}.cosn.CosNFileSystem": "cosn",
    f"{_HADOOP}.obs.OBSFileSystem": "obs",
}
_ACLS = "fs.capability.paths.acls"  # ABFS has them if the account has a hierarchical namespace, and only then
_VIEWS = 4  # of views within views that are followed


def check_text(path: str) -> None:
    """Refuse what the name alone says, where no Spark can be asked."""
    if _scheme_of(path) in FILE_BY_FILE:
        _judge(path, _scheme_of(path), is_at_once=False)


def check_class(context: SparkContext, path: str) -> None:
    """Look at the file system of a path without a request to it, as it may be away now.

    Raises:
        ConfigError: it renames file by file, or Spark has no such file system.
    """
    try:
        files = _innermost(context, _open(context, _path(context, path)))
    except (Py4JError, PySparkException):  # such as a host without an address: the first batch says so
        return
    if not _is_view(context, files):
        _judge(path, _scheme(files), is_at_once=True)


def check(context: SparkContext, path: str) -> None:
    """Look at the file system that a path leads to; the folder is made, because only what is there can be followed.

    Raises:
        ConfigError: it renames file by file, or Spark has no such file system.
        StoreUnavailable: it cannot be reached.
    """
    place = _path(context, path)
    with translated(path):
        files = _innermost(context, _open(context, place))
        for _ in range(_VIEWS):
            if not _is_view(context, files):
                break
            files.mkdirs(place)
            place = files.resolvePath(place)
            files = _innermost(context, _open(context, place))
        # A view may have the scheme of what it is laid over, and then its paths lead to itself.
        scheme = place.toUri().getScheme() if _is_view(context, files) else _scheme(files)
        is_at_once = scheme not in AZURE or bool(files.hasPathCapability(place, _ACLS))
    _judge(path, scheme, is_at_once=is_at_once)


def _innermost(context: SparkContext, files: Any) -> Any:
    """The file system below those that only pass on what they are asked."""
    gateway = context._gateway  # noqa: SLF001
    while is_instance_of(gateway, files, f"{_HADOOP}.FilterFileSystem"):
        files = files.getRawFileSystem()
    return files


def _judge(path: str, scheme: str, *, is_at_once: bool) -> None:
    if scheme in FILE_BY_FILE or not is_at_once:
        leads = "" if scheme == _scheme_of(path) else f" leads to {scheme}: and"
        raise ConfigError(
            f"{public(path)}{leads} is on an object store, which cannot rename a folder at once; write to HDFS or a "
            "disk, or a table format such as Delta or Iceberg by batch id."
        )
    if scheme not in AT_ONCE | AZURE:
        _warn(
            f"it is not known whether the {scheme}: file system of {public(path)} renames a folder at once; if it does "
            "it file by file, readers see parts of a batch: write to HDFS or a disk then."
        )


@lru_cache(maxsize=256)
def _warn(text: str) -> None:
    """Once in a process."""
    _log.warning("%s", text)


def _open(context: SparkContext, place: Any) -> Any:
    path = place.toString()
    try:
        return place.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001
    except Py4JJavaError as error:
        reason = str(error.java_exception.getMessage()).partition("\n")[0]
        if "No FileSystem for scheme" not in reason and "ClassNotFound" not in reason:
            raise
        check_text(path)  # its jar would not help
        raise ConfigError(
            f"Spark's JVM has no file system for {public(path)} ({reason}); add its jar with spark.jars.packages."
        ) from None


def _path(context: SparkContext, path: str) -> Any:
    return context._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001


def _scheme(files: Any) -> str:
    """The name of its kind: by its class or one that it extends, else what it says itself."""
    kind = files.getClass()
    while kind is not None:
        if kind.getName() in CLASSES:
            return CLASSES[kind.getName()]
        kind = kind.getSuperclass()
    try:
        name = files.getScheme()
    except (PySparkException, Py4JError):  # it has no name for itself
        name = None
    return str(name or files.getUri().getScheme()).lower()


def _is_view(context: SparkContext, files: Any) -> bool:
    return bool(is_instance_of(context._gateway, files, f"{_HADOOP}.viewfs.ViewFileSystem"))  # noqa: SLF001


def _scheme_of(path: str) -> str:
    found = SCHEME.match(path)
    return found[1].lower() if found else ""
