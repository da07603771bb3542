"""Exactly-once to the result: SQL tables, Kafka topics and files that hold every record of a stream once.

docs/exactly-once.md has the guarantees, sink by sink and failure by failure. To add a sink:

1. Make a package of two modules: `sink.py` has the class that users call, `store.py` writes to the output.
2. The store saves results and progress in one transaction of the output. `progress.py` decides whether a batch is new.
3. The store gives each driver a `Claim`. What a driver with an older epoch tries to save raises `Fenced`.
4. The sink takes RDDs, makes a `KafkaBatch` of them (`batch.py`) and gives the store nothing else.
5. Add its row to docs/exactly-once.md, with a test per cell, and its job to integration_tests/crash_job.py.
"""

from kafka_direct.broker import KafkaRecord

from .files import FileSink
from .kafka import KafkaSink
from .sql import SqlSink

__all__ = ["FileSink", "KafkaRecord", "KafkaSink", "SqlSink"]
