"""`FileSink`: a folder of files per batch, which readers see whole or not at all."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted, public
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.sinks.batch import BatchRDD
from kafka_direct.sinks.output import Output

from .store import Attempt, active_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import RDD

# The stores that copy a folder file by file to rename it, so that a reader would see a part of a batch.
NO_RENAME = ("s3", "s3a", "s3n", "gs", "oss", "cos")


@public("kafka_direct.sinks")
class FileSink:
    """Files of each batch under `<path>/batch=<id>`, for anything that Spark can write to a folder.

        sink = FileSink("hdfs:///orders")

        def save(rdd):
            with sink.batch(rdd) as folder:
                rdd.map(json.dumps).saveAsTextFile(folder)

    They are written to a folder with a hidden name, which Spark's readers leave out. The folder is renamed when the
    block ends without an error. A batch that runs again replaces what it wrote before, so a batch needs a lasting id:
    a stream with a checkpoint directory, or foreachBatch.
    """

    def __init__(self, path: str) -> None:
        if not isinstance(path, str) or not path:
            raise ArgumentTypeError(f"path must be a folder that Spark can write to; it is {path!r}.")
        if path.partition(":")[0].lower() in NO_RENAME:
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
        attempt = Attempt(self.path, *_identify(batch))
        if not isinstance(batch, int):
            self._output.refuse_second(batch)
        attempt.claim()
        try:
            yield attempt.folder
            attempt.publish()
        finally:
            attempt.clear()
        if not isinstance(batch, int):
            self._output.note_saved(batch)


def _identify(batch: Any) -> tuple[int, str]:
    """The id of a batch, and a text of what it is made of (see `Attempt`)."""
    if isinstance(batch, int):
        query = active_context().getLocalProperty("sql.streaming.queryId")
        return batch, "" if query is None else json.dumps({"query": query})
    if not isinstance(batch, BatchRDD):
        raise ArgumentTypeError(
            "give the stream's own RDD, as foreachRDD has it, or the batch id of foreachBatch; this is a "
            f"{type(batch).__name__}."
        )
    ranges = [[r.topic, r.partition, r.fromOffset, r.untilOffset] for r in batch.offsetRanges()]
    return batch.batchId(), json.dumps({"ranges": ranges})
