"""`KafkaStreamReader`: `spark.readStream.format("kafka_direct")`.

Spark keeps one reader in one process for the life of a query's run and calls it there, one call at a time; its `read`
runs in the workers, on another copy. Offsets are Spark's own JSON, `{"topic":{"0":23}}`, so that a checkpoint of the
JVM's `kafka` source goes on here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafka_direct.errors import CorruptLog
from kafka_direct.offsets.model.position import MAX_INT64
from kafka_direct.offsets.store.codec import decode_offsets, encode_offsets

from .group_progress import GroupProgress
from .partition import PartitionReader
from .stream_planner import StreamPlanner

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from kafka_direct.offsets import OffsetRange, TopicPartition
    from kafka_direct.options import SourceOptions

    from .projection import Projection


class KafkaStreamReader(PartitionReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's view of Kafka."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        super().__init__(options, projection)
        self._driver: _Driver | None = None  # in the query's process only: it neither pickles nor has to

    @property
    def driver(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(self._options)
        return self._driver

    def initialOffset(self) -> dict[str, Any]:
        return encode_offsets(self.driver.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        # How much a batch takes is decided in latestOffset. A limit of any kind tells it from Trigger.Once, for which
        # Spark says "all that is available".
        return ReadMaxRows(MAX_INT64)

    def prepareForTriggerAvailableNow(self) -> None:
        self.driver.planner.freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        # Spark compares offsets as text: nothing new must be the same text, which the codec sees to.
        return encode_offsets(self.driver.next_end(_decode(start), is_once=isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return encode_offsets(self.driver.planner.latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._split(self.driver.ranges(_decode(start), _decode(end)))

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark says it a batch late and never of the last; `latestOffset` knows what is finished."""


class _Driver:
    """What the query's process keeps between calls."""

    def __init__(self, options: SourceOptions) -> None:
        self.planner = StreamPlanner(options)
        group = self.planner.questions.group
        self._progress = None if group is None else GroupProgress(group)
        self._is_planned = False  # any batch of this run, by an earlier one too
        self._is_new = False

    def begin(self) -> dict[TopicPartition, int]:
        """The start of a query without a finished batch."""
        self._is_new = not self._is_planned
        return self.planner.first()

    def next_end(self, start: dict[TopicPartition, int], *, is_once: bool) -> dict[TopicPartition, int]:
        is_first, self._is_new, self._is_planned = self._is_new, False, True
        if is_first and not is_once:
            # The first batch reads nothing, so that its end is where the query started: should it have to run again,
            # Spark asks for the start anew, and latest would be another one by then. Trigger.Once has one batch only.
            return start
        if self._progress is not None:
            self._progress.finished(start)
        return self.planner.next_end(start, is_all=is_once)

    def ranges(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> tuple[OffsetRange, ...]:
        self._is_new, self._is_planned = False, True  # without an end of ours before: the first batch runs again
        return self.planner.ranges(start, end)


def _decode(offsets: dict[str, Any]) -> dict[TopicPartition, int]:
    try:
        return decode_offsets(offsets)
    except ValueError as error:
        raise CorruptLog(
            f"the checkpoint holds {str(offsets)[:200]!r}, which are not the offsets of a Kafka source ({error}); give "
            "the query the checkpoint that is its own."
        ) from None
