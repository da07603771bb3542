"""PySpark 2.4's `pyspark.streaming.kafka`, on the direct engine: an old job changes its import line.

    from kafka_direct.compat import KafkaUtils  # was: from pyspark.streaming.kafka import KafkaUtils

What is the same, and what is better or different, is in docs/moving-from-2.4.md.
"""

from pyspark.streaming.dstream import TransformedDStream as KafkaTransformedDStream

from kafka_direct.dstream import DirectKafkaInputDStream as KafkaDStream
from kafka_direct.dstream import KafkaRDD, utf8_decoder
from kafka_direct.offsets import OffsetRange
from kafka_direct.offsets import TopicPartition as TopicAndPartition

from .kafka_utils import KafkaUtils
from .leader import Broker
from .message import KafkaMessageAndMetadata

__all__ = [
    "Broker",
    "KafkaDStream",
    "KafkaMessageAndMetadata",
    "KafkaRDD",
    "KafkaTransformedDStream",
    "KafkaUtils",
    "OffsetRange",
    "TopicAndPartition",
    "utf8_decoder",
]
