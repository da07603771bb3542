"""`KafkaBatch`: what sinks save; the way from an RDD back to its batch, and from a batch to a task per range."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pyspark import RDD

from kafka_direct.errors import ArgumentTypeError, ConfigError, KafkaDirectError
from kafka_direct.offsets import Origin
from kafka_direct.output_call import call_of, running_call
from kafka_direct.worker import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafka_direct.offsets import Batch, Loss, OffsetRange, TopicPartition
    from kafka_direct.output_call import OutputCall


class Beginnings(Protocol):
    """Where outputs have begun, as the stream's log knows it: the batches, with the ranges that were the first."""

    def begun(self, output: str) -> list[Batch]: ...
    def begin(self, output: str, starts: Mapping[TopicPartition, int]) -> None: ...


@runtime_checkable
class BatchRDD(Protocol):
    """An RDD whose partition i is range i of a batch. `KafkaRDD` is one."""

    def offsetRanges(self) -> list[OffsetRange]: ...
    def losses(self) -> list[Loss]: ...
    def origin(self) -> Origin: ...
    def outputs(self) -> Beginnings | None: ...
    def batchId(self) -> int: ...
    def groupId(self) -> str | None: ...


def find_batch(rdd: RDD[Any]) -> BatchRDD:
    """The stream's own RDD of the batch that `rdd` belongs to: the one it carries, else the one that is output now."""
    source, call = _trace(rdd)
    call = call or running_call()
    if source is None and call is not None:
        source = call.batch_rdd()
    if source is None:
        raise ConfigError(
            "nothing says of which batch this RDD is: save it on the thread of the function given to foreachRDD, or "
            "name the batch by the RDD that this function got, as in save(..., source=rdd)."
        )
    return source


def find_ranges(rdd: RDD[Any]) -> BatchRDD:
    """The stream's own RDD of the batch, if its ranges are the partitions of `rdd`, one for one."""
    source, call = _trace(rdd)
    if source is None and call is not None:
        batch = call.batch_rdd()
        source = batch if call.keeps_ranges() else None
    if source is None:
        raise ConfigError(
            "the partitions of this RDD are not its batch's offset ranges any more (a shuffle, union, coalesce, window "
            "or checkpoint): use save(...), which writes the whole batch in one transaction."
        )
    return source


def _trace(rdd: RDD[Any]) -> tuple[BatchRDD | None, OutputCall | None]:
    """The RDD of a batch that `rdd` is made of, or the call of an output function that one of its steps was made for.

    PySpark chains what keeps the partitions (`PipelinedRDD.prev`): map, filter, mapPartitions.
    """
    if not isinstance(rdd, RDD):
        raise ArgumentTypeError(f"an RDD is saved, as foreachRDD gives it; this is a {type(rdd).__name__}.")
    step: Any = rdd
    while step is not None:
        if isinstance(step, BatchRDD):
            return step, None
        if (call := call_of(step)) is not None:
            return None, call
        step = getattr(step, "prev", None)
    return None, None


class _End:
    """Stands behind the last element of a partition, on its way to the driver."""


def collect(rdd: RDD[Any]) -> list[Any]:
    """All elements of an RDD, if these are all: if Spark's JVM is killed while it sends them, PySpark takes the end of
    the connection for the end of the elements.

    Raises:
        KafkaDirectError: Spark has not sent all of them.
    """
    partitions = rdd.getNumPartitions()
    found = rdd.mapPartitions(lambda elements: chain(elements, [_End])).collect()
    elements = [element for element in found if element is not _End]
    if (ended := len(found) - len(elements)) != partitions:
        raise KafkaDirectError(
            f"Spark's JVM ended, or lost its connection, while it sent a batch to the driver: {ended} of {partitions} "
            "partitions have come; nothing of the batch is written: restart the job."
        )
    return elements


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
    def of(cls, rdd: RDD[Any], *, by_partition: bool = False) -> KafkaBatch:
        """The batch that `rdd` belongs to; `by_partition`: only if partition i of `rdd` is range i of it.

        Raises:
            ConfigError: the batch is not known, or the partitions of `rdd` are not its ranges any more.
        """
        found = find_ranges(rdd) if by_partition else find_batch(rdd)
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

    def beginnings(self) -> Beginnings | None:
        """Where outputs have begun; None without a log, and in a worker."""
        return None if self.rdd is None else self.rdd.outputs()

    def lost(self) -> dict[TopicPartition, Loss]:
        return {loss.topic_partition: loss for loss in self.losses}

    def save_parts(self, rdd: RDD[Any], save: Callable[[KafkaBatch, Iterator[Any]], bool]) -> int:
        """Call `save(part, elements of rdd)` in the workers, and count how often it was True.

        A range without records and without a loss moves no output, and costs no task.
        """
        batch, lost = replace(self, rdd=None), self.lost()

        def run(index: int, elements: Iterable[Any]) -> Iterator[bool]:
            rest = whole(elements)
            yield save(batch.part(index), rest)
            for _ in rest:  # Spark ends a worker that leaves its input unread
                pass

        moving = [i for i, range_ in enumerate(self.ranges) if range_.count() > 0 or range_.topicPartition() in lost]
        return sum(rdd.ctx.runJob(rdd.mapPartitionsWithIndex(run), list, moving)) if moving else 0
