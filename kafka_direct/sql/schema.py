"""The columns of the source, and those that a DataFrame asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

from kafka_direct.broker.fetch.arrow import COLUMN_TYPES
from kafka_direct.errors import ConfigError
from kafka_direct.pyspark_names import utc_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_direct.decode.formats import Format

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
    """The Arrow schema in which Spark expects the columns."""
    return utc_arrow_schema(schema)


def fetched_columns(schema: StructType, columns: pa.Schema, value_format: Format) -> pa.Schema:
    """The columns to fetch for the source's schema, or for a user's schema with some of its columns.

    A value that a format decodes is fetched as bytes.

    Raises:
        ConfigError: a column does not exist, or cannot be read as its type.
    """
    types = {name.lower(): kinds for name, kinds in COLUMN_TYPES.items()}
    for place, field in enumerate(columns):
        name, kinds = field.name.lower(), types.get(field.name.lower())
        if kinds is None:
            raise ConfigError(f"there is no column {field.name}; the columns are {', '.join(COLUMN_TYPES)}.")
        if name == "value" and value_format.decodes(field.type):
            value_format.check(field.type)
            columns = columns.set(place, field.with_type(kinds[0]))
        elif field.type not in kinds:
            wanted = " or ".join(_SQL_NAMES[str(kind)] for kind in kinds)
            given = schema[place].dataType.simpleString().upper()
            hint = "set the option valueFormat to json" if given.startswith("STRUCT") else "cast it in the DataFrame"
            raise ConfigError(f"column {field.name} is {wanted}, not {given}; {hint}.")
    return columns


_SQL_NAMES = {
    "binary": "BINARY",
    "string": "STRING",
    "int32": "INT",
    "int64": "BIGINT",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    str(COLUMN_TYPES["headers"][0]): "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
