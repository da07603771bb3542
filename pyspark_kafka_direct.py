"""What makes `format("kafka_direct")` work without a register call: Spark looks for modules named `pyspark_*`."""

from kafka_direct.sql import KafkaDirectSource as DefaultSource

__all__ = ["DefaultSource"]
