"""`FileSink`: a folder of files per batch, which readers see whole or not at all."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import SparkContext

from kafka_direct.checkpointed import persisted, public
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced
from kafka_direct.sinks.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import RDD

# Their rename copies file by file, so a reader would see a part of a batch.
NO_RENAME = ("s3", "s3a", "s3n", "gs", "oss", "cos")
# What a batch was made of, beside its files; Spark's readers leave it out.
NOTE = "_kafka_direct.json"


@public("kafka_direct.sinks")
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
        self._output = Output(self.path)

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> FileSink:
        sink = cls.__new__(cls)
        vars(sink).update(path=state["path"], _output=state["output"])
        return sink

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "file-sink", {"path": self.path, "output": self._output})

    @contextmanager
    def batch(self, batch: RDD[Any] | int) -> Iterator[str]:
        """The folder to write a batch to, named by the RDD of a stream or by the batch id of foreachBatch.

        Raises:
            ConfigError: the stream has no checkpoint directory, and so no lasting batch ids; or what is there under
                this id is of other records.
            Fenced: another driver has begun the same batch since.
        """
        folders = _Folders(self.path, *_identify(batch))
        if not isinstance(batch, int):
            self._output.refuse_second(batch)
        folders.take_over()
        try:
            yield folders.hidden
            folders.publish()
        finally:
            folders.clear()
        if not isinstance(batch, int):
            self._output.note_saved(batch)


def _identify(batch: Any) -> tuple[int, str]:
    """The id of a batch, and a text of what it is made of: the same in each replay, empty if nobody knows."""
    if isinstance(batch, int):
        query = _spark_context().getLocalProperty("sql.streaming.queryId")
        return batch, "" if query is None else json.dumps({"query": query})
    if not hasattr(batch, "batchId"):
        raise ArgumentTypeError(
            "give the stream's own RDD, as foreachRDD has it, or the batch id of foreachBatch; this is a "
            f"{type(batch).__name__}."
        )
    ranges = [[r.topic, r.partition, r.fromOffset, r.untilOffset] for r in batch.offsetRanges()]
    return int(batch.batchId()), json.dumps({"ranges": ranges})


def _spark_context() -> Any:
    sc = SparkContext._active_spark_context  # noqa: SLF001  PySpark has no public name for it
    if sc is None:
        raise ConfigError("files are published by the driver: use FileSink in foreachRDD or foreachBatch.")
    return sc


class _Folders:
    """The folders of one attempt at a batch, on any file system that Spark knows.

    Beside its hidden folder an attempt has a file, its turn. The next attempt takes that away before it clears up: an
    older driver, frozen meanwhile, may write on into a folder of which a part is gone, and must not publish the rest.
    """

    def __init__(self, path: str, batch_id: int, made_of: str) -> None:
        sc = _spark_context()
        hadoop, configuration = sc._jvm.org.apache.hadoop.fs, sc._jsc.hadoopConfiguration()  # noqa: SLF001
        self.hidden = f"{path}/.batch={batch_id}.{uuid4().hex}"
        self._made_of = made_of
        self._hidden = hadoop.Path(self.hidden)
        self._final = hadoop.Path(f"{path}/batch={batch_id}")
        self._old = hadoop.Path(f"{self.hidden}.old")
        self._turn = hadoop.Path(f"{self.hidden}.turn")
        self._note, self._final_note = (hadoop.Path(folder, NOTE) for folder in (self._hidden, self._final))
        self._all = [hadoop.Path(f"{path}/.batch={batch_id}.*{kind}") for kind in (".turn", "")]
        self._files = self._hidden.getFileSystem(configuration)
        # FileSystem.rename would move a folder into one that is there; this one refuses.
        self._context = hadoop.FileContext.getFileContext(self._files.getUri(), configuration)
        self._no_options = sc._gateway.new_array(getattr(hadoop, "Options$Rename"), 0)  # noqa: SLF001

    def take_over(self) -> None:
        """Clear up what killed attempts left, and end those that only seem killed."""
        self._refuse_other_records()
        for pattern in self._all:
            for found in self._files.globStatus(pattern) or ():
                self._files.delete(found.getPath(), True)
        self._files.create(self._turn).close()

    def publish(self) -> None:
        """Put the new folder in the place of the old one: a reader in between sees none, and never two or a half."""
        is_written = self._files.exists(self._hidden)
        if is_written and self._made_of:
            self._write_note()
        # After all that makes the folder, and before all that moves it: it is whole, or gone.
        if not self._files.exists(self._turn):
            raise Fenced(
                f"another driver has begun {self._final} since; this one must stop: run one driver per output."
            )
        if not is_written:
            raise ConfigError(f"nothing was written to {self.hidden}: write the batch to the folder that is given.")
        is_there = self._files.exists(self._final)
        if is_there:
            self._rename(self._final, self._old)
        try:
            self._rename(self._hidden, self._final)
        except Exception:
            if is_there:
                self._rename(self._old, self._final)
            raise

    def clear(self) -> None:
        """Remove what this attempt has left under hidden names."""
        for path in (self._turn, self._hidden, self._old):
            self._files.delete(path, True)

    def _rename(self, source: Any, target: Any) -> None:
        self._context.rename(source, target, self._no_options)

    def _refuse_other_records(self) -> None:
        """Refuse to replace a batch of another stream, or of a log that was thrown away: its records would be lost."""
        if not self._made_of or not self._files.exists(self._final_note):
            return
        file = self._files.open(self._final_note)
        try:
            there = bytes(file.readAllBytes()).decode()
        finally:
            file.close()
        if there != self._made_of:
            raise ConfigError(
                f"{self._final} holds {there[:200]}, and this batch is made of {self._made_of[:200]}: it is of another "
                "stream, or of before the checkpoint was thrown away; give this stream a folder of its own."
            )

    def _write_note(self) -> None:
        file = self._files.create(self._note, True)
        try:
            file.write(bytearray(self._made_of.encode()))
        finally:
            file.close()
