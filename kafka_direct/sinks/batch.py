"""`KafkaBatch`: what sinks save; the way from an RDD back to its batch, and from a batch to a task per range."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pyspark import RDD

from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka_direct.offsets import Loss, OffsetRange, TopicPartition


@runtime_checkable
class BatchRDD(Protocol):
    """An RDD whose partition i is range i of a batch. `KafkaRDD` is one."""

    def offsetRanges(self) -> list[OffsetRange]: ...
    def losses(self) -> list[Loss]: ...
    def origin(self) -> Origin: ...
    def batchId(self) -> int: ...
    def groupId(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class KafkaBatch:
    """The ranges of one batch, and the losses that were accepted in front of it.

    `batch_id` is None if the stream has no checkpoint directory: its ids would not last. `group` is the consumer group
    that the stream commits to. `rdd` stays on the driver.
    """

    ranges: tuple[OffsetRange, ...]
    losses: tuple[Loss, ...] = ()
    batch_id: int | None = None
    group: str | None = None
    origin: Origin = field(default_factory=Origin)
    rdd: BatchRDD | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, rdd: RDD[Any]) -> KafkaBatch:
        """The batch whose ranges are the partitions of `rdd`, one for one.

        Partition i of a KafkaRDD is range i, and stays so through `map`, `filter`, `mapPartitions` and `cache`: PySpark
        chains these (`PipelinedRDD.prev`). Everything else (a shuffle, `union`, `coalesce`) has no such chain.

        Raises:
            ConfigError: the partitions of `rdd` are not the ranges any more.
        """
        if not isinstance(rdd, RDD):
            raise ArgumentTypeError(f"an RDD is saved, as foreachRDD gives it; this is a {type(rdd).__name__}.")
        found: Any = rdd
        while found is not None and not isinstance(found, BatchRDD):
            found = getattr(found, "prev", None)
        if found is None:
            raise ConfigError(
                "the partitions of this RDD are not its batch's offset ranges any more: after a shuffle (reduceByKey, "
                "join, repartition, coalesce, union) or an operation of the stream (stream.map) nobody can tell which "
                "range a partition holds; in foreachRDD of the stream itself save what map, filter or mapPartitions "
                "make of its RDD, or with save(..., source=rdd) the whole batch in one transaction."
            )
        try:
            batch_id = found.batchId()
        except ConfigError:
            batch_id = None
        ranges, losses = tuple(found.offsetRanges()), tuple(found.losses())
        return cls(ranges, losses, batch_id, found.groupId(), found.origin(), found)

    def part(self, index: int) -> KafkaBatch:
        """The batch of one range alone, as a task has it."""
        range_ = self.ranges[index]
        losses = tuple(loss for loss in self.losses if loss.topic_partition == range_.topicPartition())
        return KafkaBatch((range_,), losses, self.batch_id, self.group, self.origin)

    def lost(self) -> dict[TopicPartition, Loss]:
        return {loss.topic_partition: loss for loss in self.losses}

    def save_parts(self, rdd: RDD[Any], save: Callable[[KafkaBatch, Iterator[Any]], bool]) -> int:
        """Call `save(part, elements of rdd)` in the workers, and count how often it was True.

        A range without records and without a loss moves no output, and costs no task.
        """
        batch, lost = replace(self, rdd=None), self.lost()

        def run(index: int, elements: Iterable[Any]) -> Iterator[bool]:
            rest = iter(elements)
            yield save(batch.part(index), rest)
            for _ in rest:  # Spark ends a worker that leaves its input unread
                pass

        moving = [i for i, range_ in enumerate(self.ranges) if range_.count() > 0 or range_.topicPartition() in lost]
        return sum(rdd.ctx.runJob(rdd.mapPartitionsWithIndex(run), list, moving)) if moving else 0
