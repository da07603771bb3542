"""`KafkaPartition`: a range on its way to a worker, and how the worker reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kafka_direct.broker import SettingNames
from kafka_direct.broker.arrow import read_batches
from kafka_direct.worker import spare_collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import SourceOptions

    from .projection import Projection

NAMES = SettingNames(skip_lost="the option failOnDataLoss", poll_seconds="the option kafkaConsumer.pollTimeoutMs")


class KafkaPartition(InputPartition):
    """One task: one range."""

    def __init__(self, range_: OffsetRange) -> None:
        super().__init__(str(range_))
        self.range = range_


def read_partition(
    options: SourceOptions, projection: Projection, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The records of a task, in a worker."""
    if not isinstance(partition, KafkaPartition):
        return iter(())  # what Spark makes of no partitions at all
    spare_collector()
    batches = read_batches(
        options.params,
        partition.range,
        projection.fetched,
        poll_seconds=options.reading.poll_seconds,
        skip_lost=not options.reading.fail_on_data_loss,
        names=NAMES,
    )
    return projection.apply(batches)
