"""`df.write` and `writeStream` with `format("kafka_direct")`: rows become records, as in Spark's own sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from kafka_direct.broker import check_writer, write_records
from kafka_direct.errors import ConfigError
from kafka_direct.pyspark_names import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from kafka_direct.release import Stamped

from .once import OnceWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from kafka_direct.options import SinkOptions

_HEADER_TYPES = [StringType(), BinaryType()]


class Written(WriterCommitMessage):
    """Kafka has acknowledged a task's records. Nothing is left to commit."""


class _Sink(Stamped):
    """What both writers have in common."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = _checked_columns(schema, options)
        check_writer(options.params)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write_records(self._options.params, self._records(iterator))
        return Written()

    def _records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, dict[str, Any]]]:
        for batch in batches:
            columns = {name: batch.column(place).to_pylist() for name, place in self._columns.items()}
            if any(number is not None and number < 0 for number in columns.get("partition", ())):
                raise ConfigError("a row has a partition below 0; leave it NULL for the partition of the key.")
            topics = columns.pop("topic", None) if self._options.topic is None else [self._options.topic] * len(batch)
            names = list(columns)
            for topic, *parts in zip(topics or (), *columns.values(), strict=True):
                if topic is None:
                    raise ConfigError("a row has no topic; fill the column topic, or set the option topic for all.")
                # A part that is NULL is left out: a null key has a partition by chance, a null value is a tombstone.
                record = {name: part for name, part in zip(names, parts, strict=True) if part is not None}
                if "headers" in record:
                    record["headers"] = [(header["key"], header["value"]) for header in record["headers"]]
                yield topic, record


class KafkaBatchWriter(_Sink, DataSourceArrowWriter):
    """Writes a DataFrame."""


class KafkaStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query: at least once, or with the option `transactional` once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        once = self._once
        return super().write(iterator) if once is None else once.write(self._records(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._once is not None:
            self._once.require_whole(messages, batchId)

    @property
    def _once(self) -> OnceWriter | None:
        options = self._options
        if options.transactional is None or options.topic is None:
            return None
        return OnceWriter(options.params, options.transactional, options.topic)


def _checked_columns(schema: StructType, options: SinkOptions) -> dict[str, int]:
    """The places of the columns that make a record; others are not written, as in Spark.

    Raises:
        ConfigError: a column is missing, or has another type than Kafka's.
    """
    places = {field.name.lower(): place for place, field in enumerate(schema)}
    if "value" not in places:
        raise ConfigError("a record needs a column value, STRING or BINARY; there is none: select one.")
    if "topic" not in places and options.topic is None:
        raise ConfigError("no topic is given; set the option topic, or have a column topic.")
    chosen = {name: places[name] for name in _SINK_TYPES if name in places}
    if options.topic is not None:
        chosen.pop("topic", None)
    for name, place in chosen.items():
        given, (names, fits) = schema[place].dataType, _SINK_TYPES[name]
        if not fits(given):
            raise ConfigError(f"column {name} is {names}, not {given.simpleString().upper()}; cast it.")
    return chosen


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType))


def _is_headers(kind: DataType) -> bool:
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return isinstance(element, StructType) and [field.dataType for field in element] == _HEADER_TYPES


_SINK_TYPES: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "topic": ("STRING", lambda kind: isinstance(kind, StringType)),
    "key": ("STRING or BINARY", _is_bytes),
    "value": ("STRING or BINARY", _is_bytes),
    "partition": ("INT", lambda kind: isinstance(kind, IntegerType)),
    "headers": ("ARRAY<STRUCT<key: STRING, value: BINARY>>", _is_headers),
}
