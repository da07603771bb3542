"""`KafkaUtils`, with PySpark 2.4's signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

from kafka_direct.checkpointed import public
from kafka_direct.decode.elements import Elements, utf8_decoder
from kafka_direct.dstream.rdd import createRDD
from kafka_direct.dstream.stream import open_stream
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets import TopicPartition

from .leader import check_leaders
from .message import MessageHandler
from .params import translate_old_params
from .receivers import create_receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import SparkContext
    from pyspark.streaming import DStream, StreamingContext

    from kafka_direct.decode.elements import Decoder
    from kafka_direct.dstream import DirectKafkaInputDStream, KafkaRDD
    from kafka_direct.offsets import OffsetRange

    from .leader import Broker
    from .message import KafkaMessageAndMetadata


@public("kafka_direct.compat")
class KafkaUtils:
    """The functions of PySpark 2.4's class of this name."""

    @staticmethod
    def createStream(  # noqa: PLR0913, PLR0917
        ssc: StreamingContext,
        zkQuorum: str | None,
        groupId: str,
        topics: dict[str, int],
        kafkaParams: dict[str, Any] | None = None,
        storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_2,
        keyDecoder: Decoder | None = utf8_decoder,
        valueDecoder: Decoder | None = utf8_decoder,
    ) -> DStream[Any]:
        """A stream of a consumer group, as receivers gave it, without a receiver.

        It begins where the group has committed, else by `auto.offset.reset`, else at the end; what is done is committed
        to the group when its output has succeeded. With `ssc.checkpoint(directory)` the offset log has its position.

        Args:
            ssc: The context.
            zkQuorum: Not asked: Kafka has no ZooKeeper any more.
            groupId: The consumer group.
            topics: Topics to numbers of threads; these have no effect, as each partition has a task of its own.
            kafkaParams: Has the brokers, as `bootstrap.servers` or `metadata.broker.list`.
            storageLevel: No effect, because records are read from Kafka when they are processed.
            keyDecoder: From bytes to what the stream carries; None keeps bytes.
            valueDecoder: The same for values.

        Raises:
            ConfigError: an argument is wrong, there are no brokers, or a topic does not exist.
            BrokerUnavailable: no broker answered in time.
        """
        elements = Elements(key_decoder=keyDecoder, value_decoder=valueDecoder)
        return create_receiver(ssc, zkQuorum, groupId, topics, kafkaParams, storageLevel, elements)

    @staticmethod
    def createDirectStream(  # noqa: PLR0913, PLR0917
        ssc: StreamingContext,
        topics: list[str],
        kafkaParams: dict[str, Any],
        fromOffsets: Mapping[TopicPartition, Any] | None = None,
        keyDecoder: Decoder | None = utf8_decoder,
        valueDecoder: Decoder | None = utf8_decoder,
        messageHandler: Callable[[KafkaMessageAndMetadata], Any] | None = None,
    ) -> DirectKafkaInputDStream:
        """`kafka_direct.createDirectStream` as PySpark 2.4 had it.

        `fromOffsets` names the partitions that are read, of all the topics. Without it all partitions are, also those
        that are added while the stream runs.
        """
        if not isinstance(topics, list):
            raise ArgumentTypeError(f"topics should be list; it is a {type(topics).__name__}.")
        params = translate_old_params(kafkaParams)
        elements = _elements(keyDecoder, valueDecoder, messageHandler)
        if not fromOffsets:
            return open_stream(ssc, topics, params, elements)
        _check_from_offsets(fromOffsets, topics)
        return open_stream(ssc, sorted(fromOffsets), params, elements, from_offsets=fromOffsets)

    @staticmethod
    def createRDD(  # noqa: PLR0913, PLR0917
        sc: SparkContext,
        kafkaParams: dict[str, Any],
        offsetRanges: list[OffsetRange],
        leaders: Mapping[TopicPartition, Broker] | None = None,
        keyDecoder: Decoder | None = utf8_decoder,
        valueDecoder: Decoder | None = utf8_decoder,
        messageHandler: Callable[[KafkaMessageAndMetadata], Any] | None = None,
    ) -> KafkaRDD:
        """`kafka_direct.createRDD` as PySpark 2.4 had it; `leaders` are checked and not needed."""
        params = translate_old_params(kafkaParams)
        if not isinstance(offsetRanges, list):
            raise ArgumentTypeError(f"offsetRanges should be list; it is a {type(offsetRanges).__name__}.")
        check_leaders(leaders, offsetRanges)
        elements = _elements(keyDecoder, valueDecoder, messageHandler)
        decoders = (elements.key_decoder, elements.value_decoder, elements.message_handler)
        return createRDD(sc, params, offsetRanges, *decoders)


def _elements(key_decoder: Decoder | None, value_decoder: Decoder | None, handler: Any) -> Elements:
    elements = Elements(key_decoder=key_decoder, value_decoder=value_decoder)
    if handler is None:
        return elements
    # A handler's message decodes what it is asked for, and nothing else.
    return Elements(
        key_decoder=None, value_decoder=None, message_handler=MessageHandler(handler, key_decoder, value_decoder)
    )


def _check_from_offsets(from_offsets: Any, topics: list[str]) -> None:
    if not isinstance(from_offsets, dict) or not all(isinstance(key, TopicPartition) for key in from_offsets):
        raise ArgumentTypeError("fromOffsets must be a dict of TopicAndPartition to an offset.")
    named = {partition.topic for partition in from_offsets}
    if named != set(topics):
        raise ConfigError(
            f"topics are {sorted(topics)} and fromOffsets has partitions of {sorted(named)}; give both the same topics."
        )
