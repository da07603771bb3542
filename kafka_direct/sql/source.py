"""`KafkaDirectSource`: the data source as Spark meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kafka_direct.errors import ConfigError
from kafka_direct.options import SinkOptions, SourceOptions

from .batch_reader import KafkaBatchReader
from .schema import arrow_columns, source_schema
from .stream_reader import KafkaStreamReader
from .writer import KafkaBatchWriter, KafkaStreamWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class KafkaDirectSource(DataSource):
    """`format("kafka_direct")`; the options are those of Spark's `kafka`, docs/structured-streaming.md has them all."""

    @classmethod
    def name(cls) -> str:
        return "kafka_direct"

    def schema(self) -> StructType:
        # Whether a batch or a stream will read is not known yet: what both take is refused here, the rest there.
        return source_schema(include_headers=self.options.get("includeHeaders", "").strip().lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaBatchReader(SourceOptions.parse(self.options, "batch"), arrow_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return KafkaStreamReader(SourceOptions.parse(self.options, "stream"), arrow_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> KafkaBatchWriter:  # noqa: FBT001  Spark calls it so
        if overwrite:
            raise ConfigError('a topic cannot be overwritten; write with mode("append").')
        return KafkaBatchWriter(SinkOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: FBT001  Spark calls it so
        if overwrite:
            raise ConfigError('a topic only grows; write with outputMode("append") or outputMode("update").')
        return KafkaStreamWriter(SinkOptions.parse(self.options), schema)
