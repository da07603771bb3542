"""The records of a range as Arrow batches, with the columns that are asked for and no others.

Compiled loops copy them. Without these, and for headers, they are taken from messages (columns.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from kafka_direct.errors import BrokerError

from .chunk import headers_of
from .columns import MessageColumns, columns_of
from .reader import read_chunks
from .worker_consumer import MessageConsumer, build_fastest, no_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams

    from .chunk import MessageChunk
    from .columns import Columns
    from .reader import ReadSettings
    from .record_array import RecordArray
    from .worker_consumer import WorkerConsumer

    Build = Callable[[Mapping[str, Any]], WorkerConsumer[MessageChunk | RecordArray]]
    Make = Callable[["Columns", OffsetRange, pa.DataType], pa.Array]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")

# The columns of Spark's own source, in its order, each with the types that it can be read as; its own type is first.
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
    params: ClientParams, range_: OffsetRange, columns: pa.Schema, settings: ReadSettings | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order, as batches of `columns`.

    The names in `columns` are those of `COLUMN_TYPES` in any case, each with one of the types there.
    """
    makers = [_COLUMNS[field.name.lower()] for field in columns]
    build: Build = MessageConsumer if _headers in makers else build_fastest
    for chunk in read_chunks(build, params, range_, settings):
        for records in columns_of(chunk):
            with no_collection():
                arrays = [make(records, range_, field.type) for make, field in zip(makers, columns, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, schema=columns)
            yield batch


def _bytes(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # The same bytes as another type, unchecked, as Spark's own cast does it.
    return array if pa.types.is_binary(kind) else array.view(kind)


def _timestamp(records: Columns, range_: OffsetRange, kind: pa.DataType) -> pa.Array:
    times, kinds = records.times
    times = pc.if_else(pc.equal(kinds, TIMESTAMP_NOT_AVAILABLE), -1, times)
    try:
        return times.view(pa.timestamp("ms", "UTC")).cast(kind)
    except pa.ArrowInvalid:
        raise BrokerError(_invalid_timestamp(records, range_)) from None


def _invalid_timestamp(records: Columns, range_: OffsetRange) -> str:
    stamped = zip(records.offsets().to_pylist(), records.times[0].to_pylist(), strict=True)
    offset, far = max(stamped, key=lambda pair: abs(pair[1]))
    return (
        f"the record at offset {offset} of {range_.topicPartition()} has the timestamp {far}, which in milliseconds "
        "is no time that Spark knows: its producer may count in microseconds or nanoseconds; correct it, or leave the "
        "column timestamp out by a schema."
    )


def _headers(records: Columns, _: OffsetRange, kind: pa.DataType) -> pa.Array:
    assert isinstance(records, MessageColumns), "headers are read as messages"
    # None for a record without headers, as in Spark's own source. Each message is asked once: it must not be asked
    # again if its headers cannot be read.
    return pa.array(list(map(headers_of, records.messages)), kind)


_COLUMNS: dict[str, Make] = {
    "key": lambda records, _, kind: _bytes(records.keys(), kind),
    "value": lambda records, _, kind: _bytes(records.values(), kind),
    "topic": lambda records, range_, kind: pa.repeat(pa.scalar(range_.topic, kind), len(records)),
    "partition": lambda records, range_, kind: pa.repeat(pa.scalar(range_.partition, kind), len(records)),
    "offset": lambda records, *_: records.offsets(),
    "timestamp": _timestamp,
    # No timestamp, the producer's, the broker's: Java counts them from -1, librdkafka from 0.
    "timestamptype": lambda records, _, kind: pc.subtract(records.times[1], pa.scalar(1, kind)),
    "headers": _headers,
}
