"""`KafkaRDD`: one RDD partition per offset range, read where it is computed.

Partition i is range i, empty ranges included. The function a user maps over it runs in the same worker, on the records
as they are fetched, without a trip through the JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from kafka_direct.broker import Cluster, check_reader
from kafka_direct.broker.fetch.reader import DEFAULT_POLL_SECONDS, ReadSettings, read_chunks
from kafka_direct.broker.fetch.worker_consumer import MessageConsumer, build_fastest
from kafka_direct.checkpointed import public
from kafka_direct.connect import is_connect, refuse_connect
from kafka_direct.decode.elements import Elements, utf8_decoder
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import OffsetRange, Origin, Reached, find_start, offsets_lost
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.parse import parse_whole
from kafka_direct.pyspark_names import PipelinedRDD
from kafka_direct.release import StampedCall
from kafka_direct.worker import hasten_task, spare_collector

from .worker_python import require_package

POLL_MS = "spark.streaming.kafka.consumer.poll.ms"

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark import RDD

    from kafka_direct.broker.fetch.chunk import Chunk
    from kafka_direct.decode.elements import Decoder, KafkaMessage
    from kafka_direct.offsets import Loss

    from .outputs import BatchOutputs


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReader:
    """What travels to the workers: the ranges, and how to read them.

    `ranges` are an RDD's own, or what is left of them after an accepted loss. They are tuples, because each task gets
    all of them: a thousand dataclasses take it 2 ms.
    """

    params: ClientParams
    ranges: tuple[tuple[str, int, int, int], ...]
    elements: Elements
    settings: ReadSettings

    def read(self, index: int, blank: Iterable[Any]) -> Iterator[Any]:
        _begin(blank)
        range_ = self._range(index)
        build = build_fastest if self.elements.message_handler is None else MessageConsumer
        for chunk in self._chunks(range_, build):
            yield from self.elements.of(chunk, range_.topicPartition())

    def count(self, index: int, blank: Iterable[Any]) -> Iterator[int]:
        _begin(blank)
        yield sum(map(len, self._chunks(self._range(index), build_fastest)))

    def _range(self, index: int) -> OffsetRange:
        return OffsetRange(*self.ranges[index])

    def _chunks(self, range_: OffsetRange, build: Any) -> Iterator[Chunk]:
        return read_chunks(build, self.params, range_, self.settings)


def as_tuples(ranges: Iterable[OffsetRange]) -> tuple[tuple[str, int, int, int], ...]:
    """The ranges in the form that `RangeReader` takes."""
    return tuple((r.topic, r.partition, r.fromOffset, r.untilOffset) for r in ranges)


@public()
class KafkaRDD(PipelinedRDD):
    """An RDD over offset ranges of Kafka."""

    def __init__(  # noqa: PLR0913, PLR0917  what is known of a batch
        self,
        partitions: RDD[Any],
        reader: RangeReader,
        ranges: tuple[OffsetRange, ...],
        batch_id: int | None = None,
        losses: tuple[Loss, ...] = (),
        origin: Origin | None = None,
        outputs: BatchOutputs | None = None,
    ) -> None:
        super().__init__(partitions, StampedCall(reader.read))
        self._partitions = partitions
        self._reader = reader
        self._ranges = ranges
        self._batch_id = batch_id
        self._losses = losses
        self._origin = Origin() if origin is None else origin
        self._outputs = outputs

    def offsetRanges(self) -> list[OffsetRange]:
        """The ranges of this RDD; partition i reads range i."""
        return list(self._ranges)

    def losses(self) -> list[Loss]:
        """What was lost between the batch before and this one, and accepted (failOnDataLoss=false); usually empty."""
        return list(self._losses)

    def origin(self) -> Origin:
        """Of which topics the batch is, by id, which positions were moved, and which driver reads it; for sinks."""
        return self._origin

    def outputs(self) -> BatchOutputs | None:
        """Where the outputs of the stream have begun, for sinks; None if there is no log."""
        return self._outputs

    def _readable(self) -> list[OffsetRange]:
        """The ranges that are read: without empty ones, and without accepted losses."""
        return [OffsetRange(*self._reader.ranges[index]) for index in self._full()]

    def blank_jrdd(self) -> Any:
        """The JVM RDD at the ground of whatever is made of this RDD without a shuffle; batches share it."""
        return self._partitions._jrdd

    def groupId(self) -> str | None:
        """The consumer group to which finished batches are committed; None if there is none."""
        return self._reader.params.group_id

    def batchId(self) -> int:
        """The id under which the offset log has this batch: the same for every replay, so a key for idempotent output.

        Raises:
            ConfigError: the RDD belongs to no stream, or to one without a checkpoint directory.
        """
        if self._batch_id is None:
            raise ConfigError(
                "only a stream with a checkpoint directory has lasting batch ids; call ssc.checkpoint(directory) "
                "before start."
            )
        return self._batch_id

    def count(self) -> int:
        """The number of records, read but not decoded: gaps in the offsets (compaction, transactions) do not count."""
        if self.is_cached or self.is_checkpointed:
            return int(super().count())  # fills the cache, which answers later actions
        counts = self._partitions.mapPartitionsWithIndex(StampedCall(self._reader.count))
        return sum(self.ctx.runJob(counts, iter, self._full()))

    def isEmpty(self) -> bool:
        """Whether no record is visible in the ranges. Costs no job if all ranges are empty."""
        return not self.take(1)

    def take(self, num: int) -> list[Any]:
        """The first `num` elements in the order of the ranges, reading no more partitions than needed.

        Like Spark's, it tries one partition, then four times as many; unlike Spark's, empty ranges are left out.
        """
        taken: list[Any] = []
        full, width = self._full(), 1
        while full and len(taken) < num:
            some, full, width = full[:width], full[width:], width * 4
            missing = num - len(taken)
            taken += self.ctx.runJob(self, lambda records, n=missing: islice(records, n), some)
        return taken[: max(num, 0)]

    def _full(self) -> list[int]:
        return [index for index, (_, _, start, until) in enumerate(self._reader.ranges) if start < until]


def _begin(blank: Iterable[Any]) -> None:
    """Read a blank partition to its end. Else Spark ends the worker, and the next task has to start another."""
    hasten_task()
    for _ in blank:
        pass
    spare_collector()


@public()
def createRDD(  # noqa: PLR0913, PLR0917  PySpark 2.4's signature
    sc: SparkContext,
    kafkaParams: Mapping[str, Any],
    offsetRanges: Sequence[OffsetRange],
    keyDecoder: Decoder | None = utf8_decoder,
    valueDecoder: Decoder | None = utf8_decoder,
    messageHandler: Callable[[KafkaMessage], Any] | None = None,
) -> KafkaRDD:
    """An RDD of exactly the given ranges, one partition each.

    Elements are `(key, value)` after the decoders (None keeps bytes), or what `messageHandler` returns for a
    `KafkaMessage`.

    Raises:
        ConfigError: parameters or ranges that cannot be read; nothing has been read then.
        OffsetsLost: a part of a range does not exist any more.
        BrokerUnavailable: no broker answered in time.
    """
    if is_connect(sc):
        raise refuse_connect("createRDD", "read with spark.read.format('kafka_direct').")
    if not isinstance(sc, SparkContext):
        raise ArgumentTypeError(f"sc must be a SparkContext, as spark.sparkContext is; it is a {type(sc).__name__}.")
    ranges = _checked(offsetRanges)
    params = ClientParams.parse(kafkaParams)
    require_package(sc)
    check_reader(params)
    _require_available(params, ranges)
    elements = Elements(key_decoder=keyDecoder, value_decoder=valueDecoder, message_handler=messageHandler)
    settings = ReadSettings(poll_seconds=poll_seconds(sc))
    reader = RangeReader(params=params, ranges=as_tuples(ranges), elements=elements, settings=settings)
    return KafkaRDD(blank_partitions(sc, len(ranges)), reader, ranges)


def blank_partitions(sc: SparkContext, number: int) -> RDD[Any]:
    """An RDD of `number` empty partitions, which a KafkaRDD fills."""
    return sc.parallelize([], number) if number > 0 else sc.emptyRDD()


def poll_seconds(sc: SparkContext) -> float:
    """How long a worker waits for the next record before it gives up; Spark's own key, in milliseconds."""
    value = sc._conf.get(POLL_MS)  # getConf() copies all settings, a call into the JVM each
    return DEFAULT_POLL_SECONDS if value is None else parse_whole(POLL_MS, value, least=1) / 1000


def _checked(offset_ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
    if not isinstance(offset_ranges, (list, tuple)) or not all(isinstance(r, OffsetRange) for r in offset_ranges):
        raise ArgumentTypeError(
            "offsetRanges must be a list of OffsetRange(topic, partition, fromOffset, untilOffset)."
        )
    return tuple(offset_ranges)


def _require_available(params: ClientParams, ranges: tuple[OffsetRange, ...]) -> None:
    """Refuse ranges that cannot be read, before any task starts."""
    full = [r for r in ranges if r.count() > 0]
    if not full:
        return
    available = Cluster(params).require_available(Subscription.parse(sorted({r.topicPartition() for r in full})))
    for range_ in full:
        latest = available.latest[range_.topicPartition()]
        if range_.untilOffset > latest:
            raise ConfigError(
                f"{range_} ends past the end of the partition, which is at {latest}; lower untilOffset to {latest}."
            )
    # Of several ranges in one partition, the first offset counts.
    offsets = {r.topicPartition(): r.fromOffset for r in sorted(full, key=lambda r: -r.fromOffset)}
    start = find_start(Reached(offsets=offsets), available)
    if start.losses:
        raise offsets_lost(start.losses, "To continue: raise fromOffset to what is available.")
