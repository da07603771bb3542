"""From an RDD back to the offset ranges that it was made of.

Partition i of a KafkaRDD is range i, and stays so through `map`, `filter`, `mapPartitions` and `cache`: PySpark chains
these (`PipelinedRDD.prev`). Everything else (a shuffle, `union`, `coalesce`) has no such chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ArgumentTypeError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import RDD

    from kafka_direct.offsets import Loss, OffsetRange

    Save = Callable[[OffsetRange, list[Loss], Iterator[Any]], bool]


def find_source(rdd: RDD[Any]) -> Any:
    """The KafkaRDD whose partitions an RDD still has, one for one.

    Raises:
        ConfigError: its partitions are not the ranges any more.
    """
    if not hasattr(rdd, "getNumPartitions"):
        raise ArgumentTypeError(f"an RDD is saved, as foreachRDD gives it; this is a {type(rdd).__name__}.")
    ancestor: Any = rdd
    while ancestor is not None and not hasattr(ancestor, "offsetRanges"):
        ancestor = getattr(ancestor, "prev", None)
    if ancestor is None:
        raise ConfigError(
            "the partitions of this RDD are not its batch's offset ranges any more: after a shuffle (reduceByKey, "
            "join, repartition, coalesce, union) or an operation of the stream (stream.map) nobody can tell which "
            "range a partition holds; in foreachRDD of the stream itself save what map, filter or mapPartitions make "
            "of its RDD, or with save(..., source=rdd) the whole batch in one transaction."
        )
    return ancestor


def save_ranges(rdd: RDD[Any], save: Save, source: Any) -> int:
    """Run `save(range, its losses, elements)` where there may be something to do; count where it was done."""
    ranges, losses = source.offsetRanges(), source.losses()

    def run(index: int, elements: Iterable[Any]) -> Iterator[bool]:
        range_, rest = ranges[index], iter(elements)
        yield save(range_, [loss for loss in losses if loss.topic_partition == range_.topicPartition()], rest)
        for _ in rest:  # Spark ends a worker that leaves its input unread
            pass

    lost = {loss.topic_partition for loss in losses}
    moving = [i for i, range_ in enumerate(ranges) if range_.count() > 0 or range_.topicPartition() in lost]
    return sum(rdd.ctx.runJob(rdd.mapPartitionsWithIndex(run), list, moving)) if moving else 0


def batch_id_of(source: Any) -> int | None:
    """The batch id of a stream's RDD; None without a checkpoint, where ids would not last."""
    try:
        return int(source.batchId())
    except ConfigError:
        return None
