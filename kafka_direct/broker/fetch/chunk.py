"""`Chunk`: some records of one partition, in order, as a consumer handed them out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from confluent_kafka import KafkaError, Message

from kafka_direct.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Part: TypeAlias = Literal["key", "value"]


class ChunkError(NamedTuple):
    """An error that came among the records, and its offset, or -1."""

    error: KafkaError
    offset: int


class Chunk(Protocol):
    """What the reader of a range needs to know of the records; `close` frees them."""

    def __len__(self) -> int: ...

    def take_errors(self) -> Sequence[ChunkError]:
        """Take the errors out: from then on the chunk has records only."""

    def last_offset(self) -> int: ...

    def cut(self, until_offset: int) -> None:
        """Drop the records from an offset on."""

    def weight(self) -> int:
        """Bytes of keys and values."""

    def offset_of(self, place: int) -> int: ...

    def bytes_of(self, part: Part) -> list[bytes | None]:
        """The keys or the values."""

    def texts_of(self, part: Part) -> list[str | None]:
        """The same, decoded.

        Raises:
            UnicodeDecodeError: one of them is no UTF-8.
        """

    def close(self) -> None: ...


class MessageChunk:
    """Records as confluent-kafka's messages."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def __len__(self) -> int:
        return len(self.messages)

    def take_errors(self) -> Sequence[ChunkError]:
        # They are rare, and this one pass in C finds that there is none.
        if not any(map(Message.error, self.messages)):
            return ()
        polled, self.messages = self.messages, []
        errors = []
        for message in polled:
            if message.error() is None:
                self.messages.append(message)
            else:
                errors.append(error_of(message))
        return errors

    def last_offset(self) -> int:
        return self.offset_of(-1)

    def cut(self, until_offset: int) -> None:
        while self.messages and self.last_offset() >= until_offset:
            self.messages.pop()

    def weight(self) -> int:
        return sum(map(len, self.messages)) + sum(map(len, filter(None, self.bytes_of("key"))))

    def offset_of(self, place: int) -> int:
        offset = self.messages[place].offset()
        assert offset is not None, "only a message that was never sent has none"
        return offset

    def bytes_of(self, part: Part) -> list[bytes | None]:
        return list(map(Message.key if part == "key" else Message.value, self.messages))

    def texts_of(self, part: Part) -> list[str | None]:
        return [None if found is None else found.decode("utf-8") for found in self.bytes_of(part)]

    def close(self) -> None:
        """Nothing to do: Python frees each message when nobody refers to it."""


# It may return a value although it has set an error. Python checks for that in a call from C, not in each of its own.
_read_headers: Callable[[Any], Any] = partial(Message.headers)


def headers_of(message: Any) -> list[tuple[str, bytes | None]] | None:
    """The headers of a record, None if it has none.

    Raises:
        BrokerError: a name is no UTF-8. confluent-kafka raises a SystemError that does not say where.
    """
    try:
        headers: list[tuple[str, bytes | None]] | None = _read_headers(message)
    except SystemError as error:
        raise BrokerError(
            f"the record at offset {message.offset()} of {message.topic()}-{message.partition()} has a header whose "
            "name is no UTF-8; correct its producer, or read without headers: no includeHeaders, no messageHandler."
        ) from error
    return headers


def error_of(message: Message) -> ChunkError:
    """The error that a message stands for."""
    error = message.error()
    assert error is not None
    offset = message.offset()
    return ChunkError(error, -1 if offset is None else offset)
