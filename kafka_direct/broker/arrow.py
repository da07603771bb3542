"""The records of a range as Arrow batches, with the columns that are asked for and no others.

A record's parts are taken column by column through the client's C functions: a loop over records in Python would cost
three times as much.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from kafka_direct.errors import BrokerError

from .reader import read_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams

    Column = Callable[[list[Message], OffsetRange, pa.DataType], pa.Array]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")

# The columns of Spark's own source, in its order, each with the types it can be read as: its own type first.
COLUMN_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "key": (pa.binary(), pa.string()),
    "value": (pa.binary(), pa.string()),
    "topic": (pa.string(),),
    "partition": (pa.int32(), pa.int64()),
    "offset": (pa.int64(),),
    "timestamp": (TIMESTAMP,),
    "timestampType": (pa.int32(),),
    "headers": (HEADERS,),
}


def read_batches(
    params: ClientParams, range_: OffsetRange, columns: pa.Schema, **settings: Any
) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order, as batches of `columns`; `settings` are those of `read_range`.

    The names in `columns` are those of `COLUMN_TYPES` in any case, each with one of the types there.
    """
    makers = [_COLUMNS[field.name.lower()] for field in columns]
    for messages in read_range(params, range_, **settings):
        with _no_collection():
            arrays = [make(messages, range_, field.type) for make, field in zip(makers, columns, strict=True)]
            # A schema without columns still has rows to count.
            batch = pa.RecordBatch.from_arrays(arrays, schema=columns) if arrays else _rows(len(messages))
        yield batch


@contextmanager
def _no_collection() -> Iterator[None]:
    # Thousands of objects made at once set off one collection after the other, which find nothing.
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _rows(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * number, pa.struct([])))


def _bytes(part: Callable[[Message], Any]) -> Column:
    def column(messages: list[Message], _: OffsetRange, kind: pa.DataType) -> pa.Array:
        array = pa.array(list(map(part, messages)), pa.binary())
        # The same bytes under another name, unchecked: what Spark's own cast does.
        return array if pa.types.is_binary(kind) else array.view(kind)

    return column


def _offset(messages: list[Message], _: OffsetRange, kind: pa.DataType) -> pa.Array:
    return pa.array(list(map(Message.offset, messages)), kind)


def _topic(messages: list[Message], range_: OffsetRange, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(range_.topic, kind), len(messages))


def _partition(messages: list[Message], range_: OffsetRange, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(range_.partition, kind), len(messages))


def _timestamp(messages: list[Message], range_: OffsetRange, kind: pa.DataType) -> pa.Array:
    stamps = map(Message.timestamp, messages)
    millis = pa.array([-1 if code == TIMESTAMP_NOT_AVAILABLE else ms for code, ms in stamps], pa.timestamp("ms", "UTC"))
    try:
        return millis.cast(kind)
    except pa.ArrowInvalid:
        raise BrokerError(_out_of_time(messages, range_)) from None


def _out_of_time(messages: list[Message], range_: OffsetRange) -> str:
    far = max(messages, key=lambda message: abs(message.timestamp()[1]))
    return (
        f"the record at offset {far.offset()} of {range_.topic}-{range_.partition} has the timestamp "
        f"{far.timestamp()[1]}, which in milliseconds is no time that Spark knows: its producer may count in "
        "microseconds or nanoseconds; correct it, or leave the column timestamp out."
    )


def _timestamp_type(messages: list[Message], _: OffsetRange, kind: pa.DataType) -> pa.Array:
    # Java counts from -1, librdkafka from 0: no timestamp, the producer's, the broker's.
    return pa.array([code - 1 for code, _ in map(Message.timestamp, messages)], kind)


def _headers(messages: list[Message], _: OffsetRange, kind: pa.DataType) -> pa.Array:
    # None where a record has none, as in Spark's own source.
    return pa.array(list(map(Message.headers, messages)), kind)


_COLUMNS: dict[str, Column] = {
    "key": _bytes(Message.key),
    "value": _bytes(Message.value),
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestamptype": _timestamp_type,
    "headers": _headers,
}
