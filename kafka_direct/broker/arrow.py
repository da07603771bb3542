"""The records of a range as Arrow batches, with the columns that are asked for and no others.

A record's parts are taken column by column through the client's C functions: a loop over records in Python would cost
three times as much.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from kafka_direct.errors import BrokerError

from .reader import CHUNK, read_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams

    Column = Callable[["_Chunk", pa.DataType], pa.Array]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")

_COUNTED = pa.array(range(CHUNK), pa.int64())

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
            chunk = _Chunk(messages, range_)
            arrays = [make(chunk, field.type) for make, field in zip(makers, columns, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=columns)
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


class _Chunk:
    """Some records of a range; what two columns are made of is taken from them once."""

    def __init__(self, messages: list[Message], range_: OffsetRange) -> None:
        self.messages = messages
        self.range = range_

    @cached_property
    def timestamps(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The kind of each record's time, by librdkafka's code, and the time in milliseconds."""
        codes, times = zip(*map(Message.timestamp, self.messages), strict=True)
        return codes, times


def _bytes(part: Callable[[Message], Any]) -> Column:
    def column(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
        array = pa.array(list(map(part, chunk.messages)), pa.binary())
        # The same bytes under another name, unchecked: what Spark's own cast does.
        return array if pa.types.is_binary(kind) else array.view(kind)

    return column


def _offset(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
    first, last = chunk.messages[0].offset(), chunk.messages[-1].offset()
    assert first is not None
    assert last is not None
    if last - first + 1 == len(chunk.messages) <= len(_COUNTED):  # without a gap, so C can count
        return pc.add(_COUNTED[: len(chunk.messages)], pa.scalar(first, kind))
    return pa.array(list(map(Message.offset, chunk.messages)), kind)


def _topic(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(chunk.range.topic, kind), len(chunk.messages))


def _partition(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(chunk.range.partition, kind), len(chunk.messages))


def _timestamp(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
    codes, times = chunk.timestamps
    if TIMESTAMP_NOT_AVAILABLE in codes:
        times = tuple(-1 if code == TIMESTAMP_NOT_AVAILABLE else ms for code, ms in zip(codes, times, strict=True))
    try:
        return pa.array(times, pa.int64()).view(pa.timestamp("ms", "UTC")).cast(kind)
    except pa.ArrowInvalid:
        raise BrokerError(_out_of_time(chunk)) from None


def _out_of_time(chunk: _Chunk) -> str:
    far = max(chunk.messages, key=lambda message: abs(message.timestamp()[1]))
    return (
        f"the record at offset {far.offset()} of {chunk.range.topicPartition()} has the timestamp "
        f"{far.timestamp()[1]}, which in milliseconds is no time that Spark knows: its producer may count in "
        "microseconds or nanoseconds; correct it, or leave the column timestamp out by a schema."
    )


def _timestamp_type(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
    # Java counts from -1, librdkafka from 0: no timestamp, the producer's, the broker's.
    codes, _ = chunk.timestamps
    if codes.count(codes[0]) == len(codes):
        return pa.repeat(pa.scalar(codes[0] - 1, kind), len(codes))
    return pa.array([code - 1 for code in codes], kind)


def _headers(chunk: _Chunk, kind: pa.DataType) -> pa.Array:
    # None where a record has none, as in Spark's own source.
    return pa.array(list(map(Message.headers, chunk.messages)), kind)


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
