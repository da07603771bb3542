"""What a record becomes: `KafkaMessage`, the default decoder, and the step from fetched messages to elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_direct.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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

    def __post_init__(self) -> None:
        functions = {
            "keyDecoder": self.key_decoder,
            "valueDecoder": self.value_decoder,
            "messageHandler": self.message_handler,
        }
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise ArgumentTypeError(f"{name} must be a function, or None; it is {function!r}.")

    def of(self, messages: list[Any]) -> Iterable[Any]:
        """The elements of a chunk of fetched messages, in order."""
        kind = type(messages[0])
        keys = _decoded(messages, kind.key, self.key_decoder)
        values = _decoded(messages, kind.value, self.value_decoder)
        if self.message_handler is None:
            return zip(keys, values, strict=True)
        return map(self.message_handler, map(_message, messages, keys, values))


def _decoded(messages: list[Any], column: Callable[[Any], bytes | None], decoder: Decoder | None) -> Iterable[Any]:
    if decoder is None:
        return map(column, messages)
    try:
        if decoder is utf8_decoder:
            return [None if value is None else value.decode("utf-8") for value in map(column, messages)]
        return [decoder(value) for value in map(column, messages)]
    except Exception as error:
        _name_record(error, messages, column, decoder)
        raise


def _name_record(
    error: Exception, messages: list[Any], column: Callable[[Any], bytes | None], decoder: Decoder
) -> None:
    """Note on a decoder's error which record it was."""
    for message in messages:
        try:
            decoder(column(message))
        except type(error):
            where = f"{message.topic()}-{message.partition()} offset {message.offset()}"
            error.add_note(f"while decoding the {column.__name__} of {where}")
            return


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
