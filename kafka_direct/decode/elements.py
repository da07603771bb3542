"""What a record becomes: `KafkaMessage`, the default decoder, and the step from fetched messages to elements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_direct.broker.fetch.chunk import MessageChunk, headers_of
from kafka_direct.checkpointed import persisted, public
from kafka_direct.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka_direct.broker.fetch.chunk import Chunk, Part
    from kafka_direct.offsets import TopicPartition

    Decoder = Callable[[bytes | None], Any]

_JSON = json.JSONDecoder()


@public()
class KafkaMessage(NamedTuple):
    """One record, as a messageHandler receives it; `key` and `value` are after the decoders.

    `timestamp` is in milliseconds since the epoch, None if the record has none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]


@public()
def utf8_decoder(value: bytes | None) -> str | None:
    r"""Decode UTF-8 bytes; a record without a key or value has None there.

    >>> utf8_decoder(b"caf\xc3\xa9")
    'café'
    """
    return None if value is None else value.decode("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """How records become elements: `(key, value)` after the decoders, or what the handler returns.

    A decoder of None keeps bytes. `utf8_decoder` decodes a chunk at a time; any other decoder is called when its
    element is read.
    """

    key_decoder: Decoder | None = utf8_decoder
    value_decoder: Decoder | None = utf8_decoder
    message_handler: Callable[[KafkaMessage], Any] | None = None

    def __post_init__(self) -> None:
        functions = {
            "keyDecoder": self.key_decoder,
            "valueDecoder": self.value_decoder,
            "messageHandler": self.message_handler,
        }
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise ArgumentTypeError(f"{name} must be a function, or None; it is {function!r}.")

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Elements:
        return cls(**state)

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(
            self,
            "elements",
            {
                "key_decoder": self.key_decoder,
                "value_decoder": self.value_decoder,
                "message_handler": self.message_handler,
            },
        )

    def of(self, chunk: Chunk, partition: TopicPartition) -> Iterable[Any]:
        """The elements of some fetched records of a partition, in order; a handler needs a chunk of messages."""
        keys = _decoded(chunk, "key", self.key_decoder, partition)
        values = _decoded(chunk, "value", self.value_decoder, partition)
        if self.message_handler is None:
            return zip(keys, values, strict=True)
        assert isinstance(chunk, MessageChunk), "a handler's records are read as messages"
        # Not `map`: a StopIteration that the handler raises would silently end the records.
        records = zip(chunk.messages, keys, values, strict=True)
        return (self.message_handler(_message(*record)) for record in records)


def _decoded(chunk: Chunk, part: Part, decoder: Decoder | None, partition: TopicPartition) -> Iterable[Any]:
    if decoder is None:
        return chunk.bytes_of(part)
    if decoder is utf8_decoder:
        try:
            return chunk.texts_of(part)
        except UnicodeDecodeError:
            pass  # decode one by one: the records before the bad one come first, and the error names it
    return _called(chunk, part, _loads if decoder is json.loads else decoder, partition)


def _loads(found: bytes | None) -> Any:
    """Like `json.loads`, which takes twice as long to check encodings and white space in Python."""
    try:
        text = found.decode()  # type: ignore[union-attr]  # json.loads refuses None
        value, end = _JSON.raw_decode(text)
    except (ValueError, AttributeError):
        return json.loads(found)  # type: ignore[arg-type]
    return value if end == len(text) else json.loads(found)  # type: ignore[arg-type]


def _called(chunk: Chunk, part: Part, decoder: Decoder, partition: TopicPartition) -> Iterator[Any]:
    for place, found in enumerate(chunk.bytes_of(part)):
        try:
            decoded = decoder(found)
        except Exception as error:
            error.add_note(f"while decoding the {part} of {partition} offset {chunk.offset_of(place)}")
            raise
        yield decoded


def _message(message: Any, key: Any, value: Any) -> KafkaMessage:
    kind, timestamp = message.timestamp()
    return KafkaMessage(
        message.topic(),
        message.partition(),
        message.offset(),
        None if kind == 0 else timestamp,  # 0: TIMESTAMP_NOT_AVAILABLE
        key,
        value,
        headers_of(message) or [],
    )
