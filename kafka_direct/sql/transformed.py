"""`source`: a data source that applies a job's Python function in the workers that fetch."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from kafka_direct.checkpointed import public
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.release import VERSION

from .projection import Projection
from .schema import source_schema

if TYPE_CHECKING:
    from kafka_direct.pyspark_names import DataSource

    from .projection import Transform


@public()
def source(
    *,
    transform: Transform,
    schema: str | StructType,
    columns: str | StructType | None = None,
    spark: SparkSession | None = None,
) -> str:
    """Register a data source whose workers apply `transform` to what they fetch; returns the name for `format`.

    A record goes from Python to the JVM once. With `mapInArrow` it goes to the JVM, back, and there again.

    Args:
        transform: From a pyarrow.RecordBatch of `columns` to a RecordBatch or Table of `schema`, or None for no rows.
            It is called for some thousand records at a time, in order within a partition.
        schema: What comes out, as DDL or as a StructType.
        columns: What goes in, such as "value STRING, offset LONG"; by default all of the source's columns. A value that
            is a STRUCT is decoded with the option valueFormat=json.
        spark: The session; by default the active one.

    Raises:
        ArgumentTypeError, ConfigError: an argument is wrong.
    """
    from kafka_direct.pyspark_names import DataSource  # noqa: PLC0415  says so where PySpark has no Python data sources

    if not callable(transform):
        raise ArgumentTypeError(f"transform must be a function from RecordBatch to RecordBatch; it is {transform!r}.")
    session = SparkSession.getActiveSession() if spark is None else spark
    if session is None:
        raise ConfigError("there is no active SparkSession to register a data source with; pass spark=.")
    package = f"kafka-direct {VERSION or ''}".rstrip()  # its files may be here by other means than pip
    source_name = f"kafka_direct_{uuid.uuid4().hex[:12]}"
    declared = _struct(schema)
    taken = source_schema(include_headers=False) if columns is None else _struct(columns)
    Projection.of(declared, value_format="json", transform=transform, columns=taken)  # refuses a wrong schema now

    def made(options: Any) -> DataSource:
        try:
            from kafka_direct.sql.transforming import TransformingSource  # noqa: PLC0415  where Spark is, which may be far
        except ImportError as error:
            raise ImportError(
                f"kafka_direct.source was called with {package}, and the Python of Spark's driver cannot read by it "
                f"({error}); install the same there and on the workers, or start Spark (a Connect server, too) with "
                "PYSPARK_PYTHON set to a Python that has it."
            ) from None
        return TransformingSource(options, transform, declared, taken)

    class TransformedSource(DataSource):
        """Defined here, so that its pickle contains the function. It unpickles without this package, and says so."""

        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> StructType:
            return declared

        def reader(self, schema: StructType) -> Any:
            return made(self.options).reader(schema)

        def streamReader(self, schema: StructType) -> Any:
            return made(self.options).streamReader(schema)

    session.dataSource.register(TransformedSource)
    return source_name


def _struct(schema: str | StructType) -> StructType:
    if isinstance(schema, StructType):
        return schema
    parsed = StructType.fromDDL(schema)
    if not isinstance(parsed, StructType):
        raise ArgumentTypeError(f"{schema!r} is not a list of columns such as 'id LONG, name STRING'.")
    return parsed
