"""`SparkLog`: Spark's own log of one query, in the query's `checkpointLocation`.

`offsets/<batch id>` is written when a batch is planned, and says where it ends. `commits/<batch id>` is written when
the batch has run. `sources/<n>/0` is written once, and says where source `n` began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import CorruptLog, Fenced

from .codec import BATCH_ID, UNREADABLE
from .spark_entry import decode_entry, decode_initial, encode_commit_like, encode_entry

if TYPE_CHECKING:
    from kafka_direct.offsets.model.topic_partition import TopicPartition

    from .files import LogFiles
    from .spark_entry import SparkEntry


class SparkLog:
    """The log of the query with this checkpoint (a path or URI of any pyarrow file system)."""

    def __init__(self, checkpoint: str) -> None:
        from .files import LogFiles  # noqa: PLC0415  it loads pyarrow

        self._root = LogFiles.open(checkpoint)
        self._offsets = LogFiles.open(checkpoint, "offsets")
        self._commits = LogFiles.open(checkpoint, "commits")
        self._checkpoint = checkpoint

    @property
    def path(self) -> str:
        return self._root.folder

    def planned_ids(self) -> list[int]:
        return _ids(self._offsets)

    def committed_ids(self) -> list[int]:
        return _ids(self._commits)

    def has_state(self) -> bool:
        return "state/" in self._root.names()

    def planned_at(self, batch_id: int) -> float | None:
        """When a batch was planned, in seconds by the file system's clock; None if it was not."""
        return self._offsets.modified(str(batch_id))

    def committed_at(self, batch_id: int) -> float | None:
        """When a batch had run, by the same clock; None if it has not."""
        return self._commits.modified(str(batch_id))

    def entry(self, batch_id: int) -> SparkEntry:
        """What was planned for a batch.

        Raises:
            CorruptLog: the file is missing, torn, or was not written by Spark.
        """
        path = self._offsets.path(str(batch_id))
        try:
            return decode_entry(self._offsets.read(str(batch_id)))
        except FileNotFoundError as cause:
            raise CorruptLog(f"{path} is missing although later batches are there; restore it.", path=path) from cause
        except UNREADABLE as cause:
            raise CorruptLog(
                f"{path} is torn or was not written by Spark ({cause}); restore it from a copy.", path=path
            ) from cause

    def initial(self, source: str) -> dict[TopicPartition, int] | None:
        """Where a source began; None if that was not written, or cannot be read."""
        from .files import LogFiles  # noqa: PLC0415

        try:
            return decode_initial(LogFiles.open(self._checkpoint, "sources", source).read("0"))
        except (FileNotFoundError, *UNREADABLE):
            return None

    def append(self, batch_id: int, entry: SparkEntry, like: int | None) -> None:
        """Add a batch that counts as run, with a copy of the commit of batch `like`. Writes both files or none.

        Raises:
            Fenced: the query has planned a batch with that id in the meantime.
        """
        commit = encode_commit_like(None if like is None else self._commits.read(str(like)))
        if not self._offsets.create(str(batch_id), encode_entry(entry)):
            path = self._offsets.path(str(batch_id))
            raise Fenced(f"{path} was written meanwhile, the query is running; stop it and reset again.", path=path)
        try:
            self._commits.create(str(batch_id), commit)
        except OSError:
            # A plan without its commit would be run by Spark, from the old position to the new one.
            self._offsets.delete(str(batch_id))
            raise


def _ids(files: LogFiles) -> list[int]:
    # Spark does the same: it ignores files whose name is not a batch id.
    return sorted(int(name) for name in files.names() if BATCH_ID.fullmatch(name) is not None)
