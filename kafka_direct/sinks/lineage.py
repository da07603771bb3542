"""From an RDD back to the offset ranges that it was made of.

Partition i of a KafkaRDD is range i, and stays so through `map`, `filter`, `mapPartitions` and `cache`: PySpark chains
these (`PipelinedRDD.prev`). Everything else (a shuffle, `union`, `coalesce`) has no such chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ArgumentTypeError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark import RDD


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


def run_partitions(rdd: RDD[Any], save: Callable[[int, Iterable[Any]], Iterable[bool]], source: Any) -> int:
    """Run `save(index, elements)` on the partitions in which there may be something to do; count where it was done."""
    lost = {loss.topic_partition for loss in source.losses()}
    ranges = enumerate(source.offsetRanges())
    moving = [index for index, range_ in ranges if range_.count() > 0 or range_.topicPartition() in lost]
    return sum(rdd.ctx.runJob(rdd.mapPartitionsWithIndex(save), list, moving)) if moving else 0


def batch_id_of(source: Any) -> int | None:
    """The batch id of a stream's RDD; None without a checkpoint, where ids would not last."""
    try:
        return int(source.batchId())
    except ConfigError:
        return None
