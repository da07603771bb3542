"""What a record becomes: `KafkaMessage`, the default decoder, and the step from fetched messages to elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Decoder = Callable[[bytes | None], Any]


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


def utf8_decoder(value: bytes | None) -> str | None:
    r"""Decode UTF-8 bytes; a record without a key or value has None there.

    >>> utf8_decoder(b"caf\xc3\xa9")
    'café'
    """
    return None if value is None else value.decode("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """How records become elements: `(key, value)` after the decoders, or what the handler returns.

    A decoder of None keeps bytes.
    """

    key_decoder: Decoder | None = utf8_decoder
    value_decoder: Decoder | None = utf8_decoder
    message_handler: Callable[[KafkaMessage], Any] | None = None

    def of(self, messages: list[Any]) -> Iterable[Any]:
        """The elements of a chunk of fetched messages, in order."""
        kind = type(messages[0])
        keys = _decoded(map(kind.key, messages), self.key_decoder)
        values = _decoded(map(kind.value, messages), self.value_decoder)
        if self.message_handler is None:
            return zip(keys, values, strict=True)
        return map(self.message_handler, map(_message, messages, keys, values))


def _decoded(column: Iterator[bytes | None], decoder: Decoder | None) -> Iterable[Any]:
    if decoder is None:
        return column
    if decoder is utf8_decoder:
        return [None if value is None else value.decode("utf-8") for value in column]
    return map(decoder, column)


def _message(message: Any, key: Any, value: Any) -> KafkaMessage:
    kind, timestamp = message.timestamp()
    return KafkaMessage(
        message.topic(),
        message.partition(),
        message.offset(),
        None if kind == 0 else timestamp,  # 0: TIMESTAMP_NOT_AVAILABLE
        key,
        value,
        message.headers() or [],
    )
