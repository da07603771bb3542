"""`KafkaBatchReader`: `spark.read.format("kafka_direct")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetRange, cut_ranges, find_range_losses
from kafka_direct.offsets.model.position import Earliest, Latest

from .partition import PartitionReader
from .questions import Questions

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition


class KafkaBatchReader(PartitionReader, DataSourceReader):
    """Reads what lies between two positions, which are resolved once, when the DataFrame is first used."""

    def partitions(self) -> list[InputPartition]:
        return self._split(self._ranges())

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
