"""Exactly-once to the result: SQL tables, Kafka topics and files that hold every record of a stream once.

docs/exactly-once.md has the guarantees, sink by sink and failure by failure.
"""

from kafka_direct.broker import KafkaRecord

from .files import FileSink
from .kafka import KafkaSink
from .sql import SqlSink

__all__ = ["FileSink", "KafkaRecord", "KafkaSink", "SqlSink"]
