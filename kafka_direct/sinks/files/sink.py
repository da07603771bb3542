"""`FileSink`: a folder of files per batch, which readers see whole or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted, public
from kafka_direct.errors import ArgumentTypeError
from kafka_direct.sinks.batch import find_batch
from kafka_direct.sinks.output import Output
from kafka_direct.sinks.query import find_query

from . import filesystem
from .content import Content
from .store import Attempt, active_context, require_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import RDD, SparkContext

    from kafka_direct.sinks.batch import BatchRDD


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
        context = active_context()
        if context is None:
            filesystem.check_text(path)
        else:
            filesystem.check_class(context, path)
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
        """The folder to write a batch to, named by an RDD of foreachRDD or by the batch id of foreachBatch.

        Raises:
            ConfigError: the stream has no checkpoint directory, and so no lasting batch ids; what is there under this
                id is of other records; the path leads to an object store; or several queries run, and the batch is of
                any of them.
            Fenced: another driver has begun the same batch since.
        """
        context = require_context()
        source = batch if isinstance(batch, int) else find_batch(batch)
        batch_id, content = _identify(context, source)
        filesystem.check(context, self.path)
        attempt = Attempt(context, self.path, batch_id, content)
        if not isinstance(source, int):
            self._output.refuse_second(source)
        attempt.claim()
        try:
            yield attempt.folder
            attempt.publish()
        except Exception as error:
            attempt.refuse_if_ended(error)  # what failed may be only that its folder is gone
            raise
        finally:
            attempt.clear()
        if not isinstance(source, int):
            self._output.note_saved(source)


def _identify(context: SparkContext, batch: BatchRDD | int) -> tuple[int, Content | None]:
    """The id of a batch, and what it is made of, if that is known (see `Attempt`)."""
    if isinstance(batch, int):
        query = find_query(context)
        return batch, None if query is None else Content.of_query(query)
    return batch.batchId(), Content.of_stream(batch.offsetRanges(), batch.origin())
