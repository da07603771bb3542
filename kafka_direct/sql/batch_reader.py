"""`KafkaBatchReader`: `spark.read.format("kafka_direct")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetRange, cut_ranges, find_range_losses, split_ranges
from kafka_direct.offsets.position import Earliest, Latest
from kafka_direct.worker import hasten_task

from .partition import KafkaPartition, read_partition
from .questions import Questions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from kafka_direct.options import SourceOptions

    from .projection import Projection


class KafkaBatchReader(DataSourceReader):
    """Reads what lies between two positions, which are resolved once, when the DataFrame is first used."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._projection = projection

    def partitions(self) -> list[InputPartition]:
        reading = self._options.reading
        parts = split_ranges(self._ranges(), min_partitions=reading.min_partitions, max_records=reading.max_records)
        return [KafkaPartition(part) for part in parts]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        hasten_task()  # a reader arrives ahead of the partition that it is to read

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._projection, partition)

    def _ranges(self) -> tuple[OffsetRange, ...]:
        questions = Questions(self._options)
        available = questions.first_available()
        start = questions.resolve(self._options.starting, available, Earliest())
        until = questions.resolve(self._options.ending, available, Latest())
        for partition, offset in sorted(start.items()):
            if offset > until[partition]:
                raise ConfigError(
                    f"{partition} starts at {offset} ({self._options.starting.option}) and ends at {until[partition]} "
                    f"({self._options.ending.option}); start before the end."
                )
        ranges = tuple(OffsetRange(p.topic, p.partition, start[p], until[p]) for p in sorted(start))
        losses = find_range_losses(ranges, available, {})
        questions.accept(losses)
        return cut_ranges(ranges, losses)
