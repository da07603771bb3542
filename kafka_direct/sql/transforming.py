"""`TransformingSource`: the data source with a job's Python function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError

from .data_source import KafkaDirectSource
from .projection import Projection

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafka_direct.options import SourceOptions

    from .projection import Transform


class TransformingSource(KafkaDirectSource):
    """What `kafka_direct.source` registers makes it where Spark runs: keep its path and its arguments."""

    def __init__(self, options: Any, transform: Transform, declared: StructType, columns: StructType) -> None:
        super().__init__(options)
        self._transform = transform
        self._declared = declared
        self._columns = columns

    def schema(self) -> StructType:
        return self._declared

    def projection(self, schema: StructType, options: SourceOptions) -> Projection:
        if schema != self._declared:
            raise ConfigError("the schema was given to kafka_direct.source; do not call schema() on the reader.")
        value_format = options.reading.value_format
        return Projection.of(schema, value_format=value_format, transform=self._transform, columns=self._columns)
