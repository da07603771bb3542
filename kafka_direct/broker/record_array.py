"""`RecordArray`: records as librdkafka hands them out, and their columns, which compiled loops copy for Arrow."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import KafkaError

from .chunk import Failure, failure_of
from .librdkafka import Record, Survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message

    from .librdkafka import Librdkafka

# A column of Arrow's holds 2 GB; Spark copies a batch as a whole, so that less is better.
MOST_BYTES = 64 << 20
_POINTER = ctypes.sizeof(c_void_p)


class RecordArray:
    """Some records, which are librdkafka's until `close`; columns are copies."""

    def __init__(
        self,
        library: Librdkafka,
        pointers: ctypes.Array[c_void_p],
        count: int,
        *,
        first: int = 0,
        told: Sequence[Message] = (),
    ) -> None:
        self._library = library
        self._pointers = pointers
        self._count = count
        self._first = first
        self._told = told  # errors that came beside the records
        self._found = self._survey()

    def __len__(self) -> int:
        return self._count

    def take_failures(self) -> Sequence[Failure]:
        failures = [failure_of(message) for message in self._told]
        self._told, kept = (), 0
        if self._found.failures == 0:
            return failures
        for place in range(self._count):
            record = self._record(place)
            if record.error == 0:
                self._pointers[kept] = self._pointers[place]
                kept += 1
            else:
                failures.append(Failure(self._error(place), record.offset))
                self._library.client.rd_kafka_message_destroy(self._pointers[place])
        self._count = kept
        self._found = self._survey()
        return failures

    def last_offset(self) -> int:
        return int(self._record(self._count - 1).offset)

    def cut(self, until_offset: int) -> None:
        kept = self._count
        while kept > 0 and self._record(kept - 1).offset >= until_offset:
            kept -= 1
        if kept < self._count:
            self._library.loops.kafka_direct_destroy(self._address(kept), self._count - kept)
            self._count = kept
            self._found = self._survey()

    def value_bytes(self) -> int:
        return int(self._found.value_bytes)

    def close(self) -> None:
        self._library.loops.kafka_direct_destroy(self._address(), self._count)
        self._count = 0

    def parts(self) -> Iterator[RecordArray]:
        """The same records as arrays that Arrow's columns can hold; they are this one's, which closes them."""
        done = 0
        while done < self._count:
            left = self._count - done
            fitting = self._library.loops.kafka_direct_fitting(self._address(done), left, MOST_BYTES)
            yield self if fitting == self._count else RecordArray(self._library, self._pointers, fitting, first=done)
            done += fitting

    def keys(self) -> pa.Array:
        return self._bytes(is_key=True, size=self._found.key_bytes, nulls=self._found.key_nulls)

    def values(self) -> pa.Array:
        return self._bytes(is_key=False, size=self._found.value_bytes, nulls=self._found.value_nulls)

    def offsets(self) -> pa.Array:
        offsets = pa.allocate_buffer(self._count * 8)
        self._library.loops.kafka_direct_offsets(self._address(), self._count, offsets.address)
        return pa.Array.from_buffers(pa.int64(), self._count, [None, offsets], 0)

    @cached_property
    def times(self) -> tuple[pa.Array, pa.Array]:
        """Each record's time in milliseconds, and its kind by librdkafka's code."""
        times, kinds = pa.allocate_buffer(self._count * 8), pa.allocate_buffer(self._count * 4)
        self._library.loops.kafka_direct_times(self._address(), self._count, times.address, kinds.address)
        return (
            pa.Array.from_buffers(pa.int64(), self._count, [None, times], 0),
            pa.Array.from_buffers(pa.int32(), self._count, [None, kinds], 0),
        )

    def _bytes(self, *, is_key: bool, size: int, nulls: int) -> pa.Array:
        ends, data = pa.allocate_buffer((self._count + 1) * 4), pa.allocate_buffer(size)
        validity = pa.py_buffer(bytearray((self._count + 7) // 8)) if nulls > 0 else None
        self._library.loops.kafka_direct_bytes(
            self._address(),
            self._count,
            is_key,
            ends.address,
            None if validity is None else validity.address,
            data.address,
        )
        return pa.Array.from_buffers(pa.binary(), self._count, [validity, ends, data], nulls)

    def _survey(self) -> Survey:
        found = Survey()
        self._library.loops.kafka_direct_survey(self._address(), self._count, byref(found))
        return found

    def _record(self, place: int) -> Record:
        pointer = self._pointers[self._first + place]
        assert pointer is not None, "librdkafka hands out no empty places"
        return Record.from_address(pointer)

    def _error(self, place: int) -> KafkaError:
        reason = self._library.client.rd_kafka_message_errstr(self._pointers[self._first + place])
        return KafkaError(self._record(place).error, "" if reason is None else reason.decode("utf-8", "replace"))

    def _address(self, place: int = 0) -> int:
        return ctypes.addressof(self._pointers) + (self._first + place) * _POINTER
