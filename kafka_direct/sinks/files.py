"""`FileSink`: a folder of files per batch, which readers see whole or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import SparkContext

from kafka_direct.errors import ArgumentTypeError, ConfigError, KafkaDirectError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import RDD

# Their rename copies file by file, so a reader would see a part of a batch.
NO_RENAME = ("s3", "s3a", "s3n", "gs", "oss", "cos")


class FileSink:
    """Files of each batch under `<path>/batch=<id>`, for anything that Spark can write to a folder.

        sink = FileSink("hdfs:///orders")

        def save(rdd):
            with sink.batch(rdd) as folder:
                rdd.map(json.dumps).saveAsTextFile(folder)

    They are written under a hidden name, which Spark's readers leave out, and renamed when the block ends without an
    error. A batch that runs again replaces what it wrote before, so a batch needs a lasting id: a stream with a
    checkpoint directory, or foreachBatch.
    """

    def __init__(self, path: str) -> None:
        if not isinstance(path, str) or not path:
            raise ArgumentTypeError(f"path must be a folder that Spark can write to; it is {path!r}.")
        scheme = path.partition(":")[0].lower()
        if scheme in NO_RENAME:
            raise ConfigError(
                f"{path} is on an object store, which cannot rename a folder at once; write to HDFS or a disk, or a "
                "table format such as Delta or Iceberg by batch id."
            )
        self.path = path.rstrip("/")

    @contextmanager
    def batch(self, batch: RDD[Any] | int) -> Iterator[str]:
        """The folder to write a batch to, named by the RDD of a stream or by the batch id of foreachBatch.

        Raises:
            ConfigError: the stream has no checkpoint directory, and so no lasting batch ids.
        """
        batch_id = batch if isinstance(batch, int) else self._id_of(batch)
        folders = _Folders(self.path, batch_id)
        try:
            yield folders.hidden
            folders.publish()
        finally:
            folders.clear()

    def _id_of(self, batch: Any) -> int:
        if not hasattr(batch, "batchId"):
            raise ArgumentTypeError(
                "give the stream's own RDD, as foreachRDD has it, or the batch id of foreachBatch; this is a "
                f"{type(batch).__name__}."
            )
        return int(batch.batchId())


class _Folders:
    """The folders of one batch, on any file system that Spark knows."""

    def __init__(self, path: str, batch_id: int) -> None:
        sc: Any = SparkContext._active_spark_context  # noqa: SLF001  PySpark has no public name for it
        if sc is None:
            raise ConfigError("files are published by the driver: use FileSink in foreachRDD or foreachBatch.")
        hadoop, configuration = sc._jvm.org.apache.hadoop.fs, sc._jsc.hadoopConfiguration()  # noqa: SLF001
        self.hidden = f"{path}/.batch={batch_id}.{uuid4().hex}"
        self._hidden = hadoop.Path(self.hidden)
        self._final = hadoop.Path(f"{path}/batch={batch_id}")
        self._old = hadoop.Path(f"{self.hidden}.old")
        self._all_hidden = hadoop.Path(f"{path}/.batch={batch_id}.*")
        self._files = self._hidden.getFileSystem(configuration)
        # FileSystem.rename would move a folder into one that is there; this one refuses.
        self._context = hadoop.FileContext.getFileContext(self._files.getUri(), configuration)
        self._no_options = sc._gateway.new_array(getattr(hadoop, "Options$Rename"), 0)  # noqa: SLF001

    def publish(self) -> None:
        """Put the new folder in the place of the old one: a reader in between sees none, and never two or a half."""
        if not self._files.exists(self._hidden):
            raise KafkaDirectError(
                f"nothing was written to {self.hidden}: write the batch to the folder that is given."
            )
        if self._files.exists(self._final):
            self._context.rename(self._final, self._old, self._no_options)
        self._context.rename(self._hidden, self._final, self._no_options)

    def clear(self) -> None:
        """Remove what this attempt, and any that was killed, left under hidden names."""
        for found in self._files.globStatus(self._all_hidden) or ():
            self._files.delete(found.getPath(), True)
