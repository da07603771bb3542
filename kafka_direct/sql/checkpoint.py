"""`FinishedBatches`: how long a query's batches took, as its checkpoint shows it.

Spark tells a source when the next batch is planned, which with a trigger of a minute may be most of a minute after the
last one ended. The checkpoint knows: `offsets/N` is written when batch N is planned, `commits/N` when its output is
out. Both times are the file system's, so no two clocks are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.offsets.store.query_log import decode_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.offsets.store.query_log import QueryEntry

    Offsets = Mapping[TopicPartition, int]


class FinishedBatch(NamedTuple):
    """A batch between two offsets of this source."""

    start: Offsets
    end: Offsets
    seconds: float


class FinishedBatches:
    """The batches of a checkpoint, newest last; only those of this source, told by their offsets."""

    def __init__(self, checkpoint: str) -> None:
        self._planned = LogFiles.open(checkpoint, "offsets")
        self._committed = LogFiles.open(checkpoint, "commits")
        self._newest = -1

    def ending_at(self, end: Offsets) -> FinishedBatch | None:
        """The newest finished batch, if it ended there."""
        return self._batch(self._find_newest(), end)

    def before(self, end: Offsets, count: int) -> list[FinishedBatch]:
        """Up to `count` batches that led to `end`, oldest first: what a new run can learn from."""
        found: list[FinishedBatch] = []
        number = self._find_newest()
        while len(found) < count and (batch := self._batch(number, end)) is not None:
            found.insert(0, batch)
            end, number = batch.start, number - 1
        return found

    def _batch(self, number: int, end: Offsets) -> FinishedBatch | None:
        planned, finished = self._planned.modified(str(number)), self._committed.modified(str(number))
        before, after = self._entry(number - 1), self._entry(number)
        if planned is None or finished is None or before is None or after is None:
            return None
        if after.is_reset:
            return None  # moved there by hand: what lies between was not read, let alone so fast
        starts, ends = before.offsets(), after.offsets()
        start = next((starts.get(source) for source, offsets in ends.items() if offsets == end), None)
        return None if start is None else FinishedBatch(start, end, finished - planned)

    def _find_newest(self) -> int:
        """The number of the newest finished batch: looked up once, then found one by one."""
        if self._newest < 0:
            self._newest = max((int(name) for name in self._committed.names() if name.isdecimal()), default=-1)
        while self._committed.modified(str(self._newest + 1)) is not None:
            self._newest += 1
        return self._newest

    def _entry(self, number: int) -> QueryEntry | None:
        try:
            return decode_entry(self._planned.read(str(number)))
        except (FileNotFoundError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None  # what it cannot tell is not learned; Spark says what is wrong with it
