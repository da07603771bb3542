"""`KafkaStreamReader`: `spark.readStream.format("kafka_direct")`.

Spark keeps one reader in one process for the life of a query's run and calls it there, one call at a time; its `read`
runs in the workers, on another copy. Offsets are Spark's own JSON, `{"topic":{"0":23}}`, so that a checkpoint of the
JVM's `kafka` source goes on here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.broker import KafkaBrokers
from kafka_direct.errors import CorruptLog
from kafka_direct.offsets.model.position import MAX_INT64
from kafka_direct.offsets.store.codec import decode_query_offsets, encode_offsets, encode_query_offsets
from kafka_direct.pyspark_names import (
    DataSourceStreamReader,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    tells_triggers,
)

from .partition import PartitionReader
from .query_cycle import QueryCycle
from .untold_cycle import UntoldCycle

if TYPE_CHECKING:
    from kafka_direct.offsets import Reached
    from kafka_direct.options import SourceOptions
    from kafka_direct.pyspark_names import InputPartition

    from .projection import Projection


class KafkaStreamReader(PartitionReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's view of Kafka."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        super().__init__(options, projection)
        self._cycle: QueryCycle | None = None  # only in the query's process, so it is never pickled

    @property
    def cycle(self) -> QueryCycle:
        if self._cycle is None:
            seconds = self._options.asking.metadata_seconds
            kind = QueryCycle if tells_triggers() else UntoldCycle
            self._cycle = kind(self._options, KafkaBrokers(self._options.params, metadata_seconds=seconds))
        return self._cycle

    def initialOffset(self) -> dict[str, Any]:
        return encode_query_offsets(self.cycle.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        # `latestOffset` decides how much a batch takes. With a limit here, only Trigger.Once gives it ReadAllAvailable.
        return ReadMaxRows(MAX_INT64)

    def prepareForTriggerAvailableNow(self) -> None:
        self.cycle.freeze()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        # Spark compares offsets as text. The codec writes equal offsets as equal text.
        cycle = self.cycle
        if start is None:
            assert isinstance(cycle, UntoldCycle)
            return encode_query_offsets(cycle.next_untold_end())
        return encode_query_offsets(cycle.next_end(_decode(start), is_once=isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return encode_offsets(self.cycle.latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return self._split(self.cycle.ranges(_decode(start), _decode(end)))

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls it a batch late, and never for the last. `latestOffset` knows what is finished."""


def _decode(offsets: dict[str, Any]) -> Reached:
    try:
        return decode_query_offsets(offsets)
    except ValueError as error:
        raise CorruptLog(
            f"the checkpoint holds {str(offsets)[:200]!r}, which are not the offsets of a Kafka source ({error}); give "
            "the query the checkpoint that is its own."
        ) from None
