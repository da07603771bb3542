"""`RecordArray`: records as librdkafka returns them. Compiled loops make Python objects of them here.

Arrow columns are made in columns.py, because RDDs are read without Arrow.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from .chunk import ChunkError, error_of
from .librdkafka import Record, Survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from .chunk import Part
    from .librdkafka import Librdkafka

_POINTER = ctypes.sizeof(c_void_p)


class RecordArray:
    """Some records, which librdkafka owns and `close` frees. Everything that is made of them is a copy.

    A call of the compiled loops needs their `address`, and `found` for the size of what it makes.
    """

    def __init__(
        self,
        library: Librdkafka,
        pointers: ctypes.Array[c_void_p],
        count: int,
        *,
        first: int = 0,
        events: Sequence[Message] = (),
    ) -> None:
        self.library = library
        self._pointers = pointers
        self._count = count
        self._first = first
        self._events = events  # errors that came by the client's own queue
        self.found = self._survey()

    def __len__(self) -> int:
        return self._count

    def take_errors(self) -> Sequence[ChunkError]:
        errors = [error_of(message) for message in self._events]
        self._events, kept = (), 0
        if self.found.errors == 0:
            return errors
        for place in range(self._count):
            record = self._record(place)
            if record.error == 0:
                self._pointers[self._first + kept] = self._pointers[self._first + place]
                kept += 1
            else:
                errors.append(ChunkError(self._error(place), record.offset))
                self.library.client.rd_kafka_message_destroy(self._pointers[self._first + place])
        self._count = kept
        self.found = self._survey()
        return errors

    def last_offset(self) -> int:
        return self.offset_of(self._count - 1)

    def cut(self, until_offset: int) -> None:
        kept = self._count
        while kept > 0 and self.offset_of(kept - 1) >= until_offset:
            kept -= 1
        if kept < self._count:
            self.library.loops.kafka_direct_destroy(self.address(kept), self._count - kept)
            self._count = kept
            self.found = self._survey()

    def weight(self) -> int:
        return int(self.found.key_bytes + self.found.value_bytes)

    def close(self) -> None:
        self.library.loops.kafka_direct_destroy(self.address(), self._count)
        self._count = 0

    def offset_of(self, place: int) -> int:
        return int(self._record(place).offset)

    def bytes_of(self, part: Part) -> list[bytes | None]:
        return self._objects(part, is_text=False)

    def texts_of(self, part: Part) -> list[str | None]:
        return self._objects(part, is_text=True)

    def address(self, place: int = 0) -> int:
        return ctypes.addressof(self._pointers) + (self._first + place) * _POINTER

    def part(self, first: int, count: int) -> RecordArray:
        """Some of the same records. This array still owns them, and closes them."""
        return RecordArray(self.library, self._pointers, count, first=self._first + first)

    def _objects(self, part: Part, *, is_text: bool) -> list[Any]:
        objects: list[Any] = [None] * self._count
        self.library.object_loops.kafka_direct_objects(self.address(), self._count, part == "key", is_text, objects)
        return objects

    def _survey(self) -> Survey:
        found = Survey()
        self.library.loops.kafka_direct_survey(self.address(), self._count, byref(found))
        return found

    def _record(self, place: int) -> Record:
        pointer = self._pointers[self._first + place]
        assert pointer is not None, "librdkafka returns no empty places"
        return Record.from_address(pointer)

    def _error(self, place: int) -> KafkaError:
        reason = self.library.client.rd_kafka_message_errstr(self._pointers[self._first + place])
        return KafkaError(self._record(place).error, "" if reason is None else reason.decode("utf-8", "replace"))
