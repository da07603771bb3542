"""The DStream front door: `createDirectStream` and `createRDD`."""

from kafka_direct.decode.elements import KafkaMessage, utf8_decoder

from .rdd import KafkaRDD, createRDD
from .stream import DirectKafkaInputDStream, createDirectStream

__all__ = ["DirectKafkaInputDStream", "KafkaMessage", "KafkaRDD", "createDirectStream", "createRDD", "utf8_decoder"]
