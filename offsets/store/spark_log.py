"""`SparkLog`: Spark's own log of one query, in the query's `checkpointLocation`.

`offsets/<batch id>` is written when a batch is planned, and says where it ends. `commits/<batch id>` is written when
the batch has run. `sources/<n>/0` is written once, and says where source `n` began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import CorruptLog, Fenced, StoreUnavailable

from .codec import BATCH_ID, UNREADABLE
from .files import LogFiles
from .spark_entry import decode_entry, decode_initial, encode_commit_like, encode_entry
from .store import locate, public

if TYPE_CHECKING:
    from kafka_direct.offsets.model.topic_partition import TopicPartition

    from .spark_entry import SparkEntry
    from .store import Locate


class SparkLog:
    """The log of the query with this checkpoint (a path, or a URI that `locate` knows)."""

    def __init__(self, checkpoint: str, *, locate: Locate = locate) -> None:
        self._root = LogFiles.open(checkpoint, locate=locate)
        self._offsets = self._root.below("offsets")
        self._commits = self._root.below("commits")

    @property
    def path(self) -> str:
        return self._root.folder

    def planned_ids(self) -> list[int]:
        return _ids(self._offsets)

    def committed_ids(self) -> list[int]:
        return _ids(self._commits)

    def has_state(self) -> bool:
        return "state/" in self._root.names()

    def caution(self) -> str | None:
        """What the store cannot promise, in a sentence."""
        return self._offsets.caution()

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
            text = self._offsets.read(str(batch_id))
        except FileNotFoundError as cause:
            raise CorruptLog(f"{path} is missing although later batches are there; restore it.", path=path) from cause
        try:
            return decode_entry(text)
        except UNREADABLE as cause:
            raise CorruptLog(
                f"{path} is torn or was not written by Spark ({cause}); restore it from a copy.", path=path
            ) from cause

    def initial(self, source: str) -> dict[TopicPartition, int] | None:
        """Where a source began; None if that was not written, or cannot be read."""
        try:
            text = self._root.below("sources", source).read("0")
        except FileNotFoundError:
            return None
        return decode_initial(text)

    def append(self, batch_id: int, entry: SparkEntry, like: int | None) -> None:
        """Add a batch that counts as run, with a copy of the commit of batch `like`. Writes both files or none.

        Raises:
            Fenced: the query has planned a batch with that id in the meantime.
            StoreUnavailable: it is not known which of the two files are there.
        """
        name, path = str(batch_id), self._offsets.path(str(batch_id))
        commit = encode_commit_like(None if like is None else self._commits.read(str(like)))
        if not _is_written(self._offsets, name, encode_entry(entry)):
            raise Fenced(f"{path} was written meanwhile, the query is running; stop it and reset again.", path=path)
        try:
            is_committed = _is_written(self._commits, name, commit)
        except StoreUnavailable:
            raise  # a commit may be there: without its plan Spark would run the batch before it again
        except OSError:
            # A plan without its commit would be run by Spark, from the old position to the new one.
            self._offsets.delete(name)
            raise
        if not is_committed:
            raise Fenced(
                f"batch {batch_id} of {self.path} was run meanwhile; stop the query and reset again.", path=path
            )


def _is_written(files: LogFiles, name: str, text: str) -> bool:
    """Write a file. False if another text is there. Of an error the file itself says whether it was written.

    Raises:
        StoreUnavailable: that cannot be known.
        OSError: it was not written.
    """
    try:
        return files.create(name, text) in (None, text)
    except OSError as error:
        path = files.path(name)
        try:
            return files.read(name) == text
        except (FileNotFoundError, NotADirectoryError):
            raise OSError(str(error)) from error
        except OSError:
            raise StoreUnavailable(
                f"it is not known whether {public(path)} was written ({error}): look with `kafka-direct offsets show`, "
                "and reset again before the query starts.",
                path=public(path),
            ) from error


def _ids(files: LogFiles) -> list[int]:
    # Spark does the same: it ignores files whose name is not a batch id.
    return sorted(int(name) for name in files.names() if BATCH_ID.fullmatch(name) is not None)
