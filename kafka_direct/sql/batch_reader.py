"""`KafkaBatchReader`: `spark.read.format("kafka_direct")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.broker import KafkaBrokers
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetRange, cut_ranges, find_range_losses
from kafka_direct.offsets.model.position import Earliest, Latest
from kafka_direct.pyspark_names import DataSourceReader

from .partition import PartitionReader
from .query_cycle import make_engine
from .starting import start_rule

if TYPE_CHECKING:
    from kafka_direct.pyspark_names import InputPartition


class KafkaBatchReader(PartitionReader, DataSourceReader):
    """Reads what lies between two positions, which are resolved once, when the DataFrame is first used."""

    def partitions(self) -> list[InputPartition]:
        return self._split(self._ranges())

    def _ranges(self) -> tuple[OffsetRange, ...]:
        engine = make_engine(self._options, KafkaBrokers(self._options.params))
        available = engine.require_available()
        start = engine.resolve(start_rule(self._options, self._options.starting, Earliest()), available).offsets
        until = engine.resolve(start_rule(self._options, self._options.ending, Latest()), available).offsets
        for partition, offset in sorted(start.items()):
            if offset > until[partition]:
                raise ConfigError(
                    f"{partition} starts at {offset} ({self._options.starting.option}) and ends at {until[partition]} "
                    f"({self._options.ending.option}); start before the end."
                )
        ranges = tuple(OffsetRange(p.topic, p.partition, start[p], until[p]) for p in sorted(start))
        losses = find_range_losses(ranges, available, {})
        engine.losses.accept(losses)
        return cut_ranges(ranges, losses)
