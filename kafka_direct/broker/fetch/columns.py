"""The Arrow columns of a chunk: compiled loops make them of arrays, and the client's C functions of messages."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import Message

from .chunk import MessageChunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from .record_array import RecordArray

    Columns: TypeAlias = "MessageColumns | ArrayColumns"

# An Arrow column holds up to 2 GB. Spark copies a batch as a whole, so less is better.
MAX_COLUMN_BYTES = 64 << 20


def columns_of(chunk: MessageChunk | RecordArray) -> Iterator[Columns]:
    """The columns of all its records, in parts of which each fits into Arrow columns."""
    if isinstance(chunk, MessageChunk):
        yield MessageColumns(chunk)
        return
    done = 0
    while done < len(chunk):
        left = len(chunk) - done
        fitting = chunk.library.loops.kafka_direct_fitting(chunk.address(done), left, MAX_COLUMN_BYTES)
        yield ArrayColumns(chunk if fitting == len(chunk) else chunk.part(done, fitting))
        done += fitting


class MessageColumns:
    """Columns of messages, each made in a pass over them. One loop in Python would take three times as long."""

    def __init__(self, chunk: MessageChunk) -> None:
        self.messages = chunk.messages
        self._chunk = chunk

    def __len__(self) -> int:
        return len(self.messages)

    def keys(self) -> pa.Array:
        return pa.array(self._chunk.bytes_of("key"), pa.binary())

    def values(self) -> pa.Array:
        return pa.array(self._chunk.bytes_of("value"), pa.binary())

    def offsets(self) -> pa.Array:
        return pa.array(list(map(Message.offset, self.messages)), pa.int64())

    @cached_property
    def times(self) -> tuple[pa.Array, pa.Array]:
        """Each record's timestamp in milliseconds, and its type by librdkafka's code."""
        kinds, times = zip(*map(Message.timestamp, self.messages), strict=True)
        return pa.array(times, pa.int64()), pa.array(kinds, pa.int32())


class ArrayColumns:
    """Columns of an array of records, each made by a compiled loop that fills Arrow's buffers."""

    def __init__(self, records: RecordArray) -> None:
        self._records = records
        self._loops = records.library.loops

    def __len__(self) -> int:
        return len(self._records)

    def keys(self) -> pa.Array:
        return self._bytes(is_key=True, size=self._records.found.key_bytes, nulls=self._records.found.key_nulls)

    def values(self) -> pa.Array:
        return self._bytes(is_key=False, size=self._records.found.value_bytes, nulls=self._records.found.value_nulls)

    def offsets(self) -> pa.Array:
        offsets = pa.allocate_buffer(len(self) * 8)
        self._loops.kafka_direct_offsets(self._records.address(), len(self), offsets.address)
        return pa.Array.from_buffers(pa.int64(), len(self), [None, offsets], 0)

    @cached_property
    def times(self) -> tuple[pa.Array, pa.Array]:
        """Each record's timestamp in milliseconds, and its type by librdkafka's code."""
        times, kinds = pa.allocate_buffer(len(self) * 8), pa.allocate_buffer(len(self) * 4)
        self._loops.kafka_direct_times(self._records.address(), len(self), times.address, kinds.address)
        return (
            pa.Array.from_buffers(pa.int64(), len(self), [None, times], 0),
            pa.Array.from_buffers(pa.int32(), len(self), [None, kinds], 0),
        )

    def _bytes(self, *, is_key: bool, size: int, nulls: int) -> pa.Array:
        ends, data = pa.allocate_buffer((len(self) + 1) * 4), pa.allocate_buffer(size)
        validity = pa.py_buffer(bytearray((len(self) + 7) // 8)) if nulls > 0 else None
        self._loops.kafka_direct_bytes(
            self._records.address(),
            len(self),
            is_key,
            ends.address,
            None if validity is None else validity.address,
            data.address,
        )
        return pa.Array.from_buffers(pa.binary(), len(self), [validity, ends, data], nulls)
