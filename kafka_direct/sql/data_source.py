"""`KafkaDirectSource`: the data source that Spark calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.options import SinkOptions, SourceOptions
from kafka_direct.options.option_texts import OptionTexts
from kafka_direct.pyspark_names import DataSource
from kafka_direct.release import Stamped

from .batch_reader import KafkaBatchReader
from .projection import Projection
from .py_files import find_py_files
from .schema import source_schema
from .stream_reader import KafkaStreamReader
from .writer import KafkaBatchWriter, KafkaStreamWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafka_direct.pyspark_names import DataSourceReader, DataSourceStreamReader


class KafkaDirectSource(Stamped, DataSource):
    """`format("kafka_direct")`; the options are those of Spark's `kafka`, docs/structured-streaming.md has them all."""

    @classmethod
    def name(cls) -> str:
        return "kafka_direct"

    def schema(self) -> StructType:
        return source_schema(include_headers=OptionTexts(self.options).boolean("includeHeaders", default=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.parse(self.options, "batch")
        return KafkaBatchReader(options, self.projection(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        find_py_files()
        options = SourceOptions.parse(self.options, "stream")
        return KafkaStreamReader(options, self.projection(schema, options))

    def projection(self, schema: StructType, options: SourceOptions) -> Projection:
        """Which columns to fetch, and how to convert them."""
        return Projection.of(schema, value_format=options.reading.value_format)

    def writer(self, schema: StructType, overwrite: bool) -> KafkaBatchWriter:  # noqa: FBT001  Spark calls it so
        if overwrite:
            raise ConfigError('a topic cannot be overwritten; write with mode("append").')
        return KafkaBatchWriter(SinkOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: FBT001  Spark calls it so
        if overwrite:
            raise ConfigError('a topic only grows; write with outputMode("append").')
        return KafkaStreamWriter(SinkOptions.parse(self.options, is_query=True), schema)
