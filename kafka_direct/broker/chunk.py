"""`Chunk`: some records of one partition, in order, as a consumer handed them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from confluent_kafka import KafkaError, Message

if TYPE_CHECKING:
    from collections.abc import Sequence


class Failure(NamedTuple):
    """An error, which comes among the records, and the offset that goes with it, or -1."""

    error: KafkaError
    offset: int


class Chunk(Protocol):
    """What reading a range needs to know of the records; `close` gives their memory back."""

    def __len__(self) -> int: ...

    def take_failures(self) -> Sequence[Failure]:
        """The errors among the records, which are records only from here on."""

    def last_offset(self) -> int: ...

    def cut(self, until_offset: int) -> None:
        """Leave out the records from an offset on."""

    def value_bytes(self) -> int: ...

    def close(self) -> None: ...


class MessageChunk:
    """Records as confluent-kafka's messages."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def __len__(self) -> int:
        return len(self.messages)

    def take_failures(self) -> Sequence[Failure]:
        # They are rare: one look through C finds that there is none.
        if not any(map(Message.error, self.messages)):
            return ()
        polled, self.messages = self.messages, []
        failures = []
        for message in polled:
            if message.error() is None:
                self.messages.append(message)
            else:
                failures.append(failure_of(message))
        return failures

    def last_offset(self) -> int:
        return _offset(self.messages[-1])

    def cut(self, until_offset: int) -> None:
        while self.messages and self.last_offset() >= until_offset:
            self.messages.pop()

    def value_bytes(self) -> int:
        return sum(map(len, self.messages))

    def close(self) -> None:
        """Nothing to do: messages live as long as somebody holds them."""


def failure_of(message: Message) -> Failure:
    """The error that a message is."""
    error = message.error()
    assert error is not None
    offset = message.offset()
    return Failure(error, -1 if offset is None else offset)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "only a message that was never sent has none"
    return offset
