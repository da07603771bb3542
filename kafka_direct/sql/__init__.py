"""The data source `kafka_direct`: `spark.read` and `spark.readStream`, on PySpark's Python Data Source API.

Spark makes these objects in its own processes: the source where a DataFrame is planned, the stream's reader in one
process for the life of a query, `read` in the workers. Only that process keeps state between calls.
"""

from .data_source import KafkaDirectSource
from .transformed import source

__all__ = ["KafkaDirectSource", "source"]
