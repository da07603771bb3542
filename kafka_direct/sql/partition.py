"""`PartitionReader`: how ranges become tasks, and how a worker reads one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.broker import ReadSettings
from kafka_direct.broker.fetch.arrow import read_batches
from kafka_direct.offsets import LossPolicy, split_ranges
from kafka_direct.offsets.model.loss import QUERY_SETTING
from kafka_direct.pyspark_names import InputPartition
from kafka_direct.release import Stamped
from kafka_direct.worker import hasten_task, spare_collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import SourceOptions

    from .projection import Projection


class KafkaPartition(InputPartition):
    """One task: one range."""

    def __init__(self, range_: OffsetRange) -> None:
        super().__init__(str(range_))
        self.range = range_


class PartitionReader(Stamped):
    """What the readers of batches and of streams have in common."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._projection = projection

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        hasten_task()  # a reader arrives before the partition that it reads

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a task, in a worker."""
        if not isinstance(partition, KafkaPartition):
            return iter(())  # Spark's own, when there are no partitions
        spare_collector()
        reading = self._options.reading
        settings = ReadSettings(
            poll_seconds=reading.poll_seconds,
            poll_setting="the option kafkaConsumer.pollTimeoutMs",
            losses=LossPolicy(fail_on_data_loss=reading.fail_on_data_loss, setting=QUERY_SETTING, reader="a worker"),
        )
        batches = read_batches(self._options.params, partition.range, self._projection.fetched, settings)
        return self._projection.apply(batches)

    def _split(self, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
        reading = self._options.reading
        parts = split_ranges(ranges, min_partitions=reading.min_partitions, max_records=reading.max_records)
        return [KafkaPartition(part) for part in parts]
