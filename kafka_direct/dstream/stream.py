"""`DirectKafkaInputDStream` and `createDirectStream`: the direct API that PySpark lost in 3.0."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream, TransformedDStream
from pyspark.streaming.util import TransformFunction

from kafka_direct.broker import check_reader
from kafka_direct.checkpointed import persisted, public
from kafka_direct.connect import is_connect, refuse_connect
from kafka_direct.decode.elements import Elements, utf8_decoder
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import SavedPositions
from kafka_direct.options import ClientParams, Subscription, refuse_literal_secrets

from . import hooks, jvm
from .compute import Compute, Output, Transformation, takes_time
from .context import streams_of
from .process import process
from .spec import StreamSpec, parse_from_offsets
from .worker_python import require_package

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from pyspark import RDD

    from kafka_direct.decode.elements import Decoder, KafkaMessage
    from kafka_direct.engine import CommitCallback
    from kafka_direct.offsets import OffsetRange, TopicPartition

    from .spec import RatePerPartition, Receivers


@public()
class DirectKafkaInputDStream(DStream[Any]):
    """A stream that reads Kafka range by range; each batch's RDD has one partition per Kafka partition.

    The RDDs given to `foreachRDD` and `transform` are `KafkaRDD`s: they have `offsetRanges()`, and what is mapped over
    them runs in the worker that fetches.
    """

    def __init__(self, ssc: StreamingContext, anchor: Any, spec: StreamSpec) -> None:
        sc = ssc._sc
        compute = TransformFunction(sc, Compute(spec), sc.serializer)
        stream = sc._jvm.PythonTransformedDStream(anchor, compute)
        super().__init__(stream.asJavaDStream(), ssc, sc.serializer)
        self.name = spec.name

    def foreachRDD(self, func: Callable[..., None]) -> None:
        """Apply `func(rdd)` or `func(time, rdd)` to each batch's KafkaRDD."""
        output = Output(self.name, func, takes_time=takes_time(func))
        function = TransformFunction(self._sc, output, self._jrdd_deserializer)
        self._sc._jvm.PythonDStream.callForeachRDD(self._jdstream, function)

    def transform(self, func: Callable[..., RDD[Any]]) -> TransformedDStream[Any]:
        """A stream of what `func(rdd)` or `func(time, rdd)` makes of each batch's KafkaRDD."""
        return TransformedDStream(self, Transformation(self.name, func, takes_time=takes_time(func)))

    def commitAsync(self, offsetRanges: Sequence[OffsetRange], callback: CommitCallback | None = None) -> None:
        """Commit the ends of ranges to the consumer group, once the batch that reads them has succeeded.

        `callback(offsets, error)` is called with what was committed and None, or with the error.
        """
        process.running[self.name].commit_async(offsetRanges, callback)

    def currentOffsets(self) -> dict[TopicPartition, int]:
        """Where the next batch continues, per partition."""
        streams = streams_of(self._ssc) if hasattr(self, "_ssc") else process.running
        return streams[self.name].current_offsets()

    @classmethod
    def revived(cls, _version: int, name: str) -> DirectKafkaInputDStream:
        stream = cls.__new__(cls)
        stream.name = name
        return stream

    def __reduce__(self) -> tuple[Any, ...]:
        # An output operation may hold the stream, for commitAsync; in a checkpoint its name is enough.
        return persisted(self, "stream-name", self.name)


@public()
def createDirectStream(  # noqa: PLR0913, PLR0917  PySpark 2.4's signature, and what is new after the star
    ssc: StreamingContext,
    topics: Sequence[str] | Sequence[TopicPartition] | re.Pattern[str],
    kafkaParams: Mapping[str, Any],
    fromOffsets: Mapping[TopicPartition, Any] | None = None,
    keyDecoder: Decoder | None = utf8_decoder,
    valueDecoder: Decoder | None = utf8_decoder,
    messageHandler: Callable[[KafkaMessage], Any] | None = None,
    *,
    name: str | None = None,
    maxRatePerPartition: RatePerPartition | None = None,
    minRatePerPartition: RatePerPartition | None = None,
) -> DirectKafkaInputDStream:
    """A stream over Kafka without a receiver: each batch reads planned ranges, written to the checkpoint's offset log
    first.

    Args:
        ssc: The context; `ssc.checkpoint(directory)` gives the stream its offset log, and with it identical replay.
        topics: Names, a compiled pattern (full match), or TopicPartitions.
        kafkaParams: librdkafka's settings. With `group.id`, finished work is committed to that group.
        fromOffsets: Where to begin if the log is empty, by partition; values are positions such as 42, "earliest",
            "latest-100" or "-10m". Without it: the group's offset, then `auto.offset.reset`, then latest.
        keyDecoder: From bytes to what the stream carries; None keeps bytes.
        valueDecoder: The same for values.
        messageHandler: Makes each element from a KafkaMessage; without it elements are `(key, value)`.
        name: Names the offset log; needed only to tell streams apart whose order in the program changes.
        maxRatePerPartition: Records per second, at most: a number, a mapping by TopicPartition, or a function of it.
        minRatePerPartition: Records per batch, at least, whatever backpressure says.

    Raises:
        ConfigError: an argument is wrong, or a topic does not exist.
        BrokerUnavailable: no broker answered in time.
    """
    return open_stream(
        ssc,
        topics,
        kafkaParams,
        Elements(key_decoder=keyDecoder, value_decoder=valueDecoder, message_handler=messageHandler),
        from_offsets=fromOffsets,
        name=name,
        max_rate=maxRatePerPartition,
        min_rate=minRatePerPartition,
    )


def open_stream(  # noqa: PLR0913  what a stream is created with
    ssc: StreamingContext,
    topics: Any,
    kafka_params: Mapping[str, Any],
    elements: Elements,
    *,
    from_offsets: Any = None,
    name: str | None = None,
    max_rate: RatePerPartition | None = None,
    min_rate: RatePerPartition | None = None,
    receivers: Receivers | None = None,
) -> DirectKafkaInputDStream:
    """What `createDirectStream` does; with `receivers` the stream stands for them."""
    if is_connect(ssc):
        raise refuse_connect("a direct stream", "read with spark.readStream.format('kafka_direct').")
    if not isinstance(ssc, StreamingContext):
        raise ArgumentTypeError(f"ssc must be a StreamingContext; it is a {type(ssc).__name__}.")
    params = ClientParams.parse(kafka_params)
    hooks.install()
    jvm.require_pinned(ssc)
    jvm.require_initialized(ssc, "adds no streams to it")
    streams = streams_of(ssc)
    if jvm.checkpoint_directory(ssc) is not None:
        refuse_literal_secrets(params)
    require_package(ssc._sc)
    check_reader(params)
    make_spec = partial(
        StreamSpec,
        name=streams.free_name() if name is None else _checked_name(name),
        subscription=Subscription.parse(topics),
        params=params,
        from_offsets=parse_from_offsets(from_offsets),
        from_topic_ids=from_offsets.topic_ids if isinstance(from_offsets, SavedPositions) else {},
        elements=elements,
        max_rate=max_rate,
        min_rate=min_rate,
        receivers=receivers,
    )
    anchor = jvm.create_input(ssc)  # Spark has it from here on, so all refusals come before
    spec = make_spec(input_id=anchor.id())
    streams.create(spec)
    return DirectKafkaInputDStream(ssc, anchor, spec)


def _checked_name(name: str) -> str:
    """A name is a folder's name in the checkpoint."""
    if not isinstance(name, str) or not name or name.startswith(".") or not set(name) <= _NAME_CHARACTERS:
        raise ConfigError(f"name={name!r} names a folder of the checkpoint: use letters, digits, - _ and dots inside.")
    return name


_NAME_CHARACTERS = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
