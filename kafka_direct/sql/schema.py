"""The columns of the source, and those that a DataFrame asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka_direct.broker import COLUMN_TYPES
from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def source_schema(*, include_headers: bool) -> StructType:
    """The columns of Spark's own source."""
    headers = [StructField("headers", ArrayType(_HEADER))] if include_headers else []
    return StructType([*_COLUMNS.fields, *headers])


def arrow_columns(schema: StructType) -> pa.Schema:
    """The columns to fetch for a schema of the source's, or of a user's that names some of them.

    Raises:
        ConfigError: a column is not the source's, or is of a type that it cannot be read as.
    """
    columns = to_arrow_schema(schema, timezone="UTC")
    types = {name.lower(): kinds for name, kinds in COLUMN_TYPES.items()}
    for spark_field, field in zip(schema, columns, strict=True):
        kinds = types.get(field.name.lower())
        if kinds is None:
            raise ConfigError(f"there is no column {field.name}; the columns are {', '.join(COLUMN_TYPES)}.")
        if field.type not in kinds:
            wanted = " or ".join(_SQL_NAMES[str(kind)] for kind in kinds)
            given = spark_field.dataType.simpleString().upper()
            raise ConfigError(f"column {field.name} is {wanted}, not {given}; cast it in the DataFrame.")
    return columns


_SQL_NAMES = {
    "binary": "BINARY",
    "string": "STRING",
    "int32": "INT",
    "int64": "BIGINT",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    str(COLUMN_TYPES["headers"][0]): "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
