"""`KafkaMessageAndMetadata`: what a messageHandler of PySpark 2.4 receives."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted, public
from kafka_direct.decode.elements import utf8_decoder
from kafka_direct.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_direct.decode.elements import Decoder, KafkaMessage


@public("kafka_direct.compat")
class KafkaMessageAndMetadata:
    """A record; `key` and `message` are bytes here, and are decoded when they are first asked for.

    >>> record = KafkaMessageAndMetadata("orders", 0, 42, None, b"apple")
    >>> record.offset, record.key, record.message
    (42, None, 'apple')
    """

    def __init__(self, topic: str, partition: int, offset: int, key: bytes | None, message: bytes | None) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self._raw_key = key
        self._raw_message = message
        self._key_decoder: Decoder | None = utf8_decoder
        self._value_decoder: Decoder | None = utf8_decoder

    @classmethod
    def of(cls, record: KafkaMessage, key_decoder: Decoder | None, value_decoder: Decoder | None) -> Any:
        """A record that was fetched as bytes, and how it is decoded; a decoder of None keeps bytes."""
        message = cls(record.topic, record.partition, record.offset, record.key, record.value)
        message._key_decoder, message._value_decoder = key_decoder, value_decoder
        return message

    @cached_property
    def key(self) -> Any:
        return self._raw_key if self._key_decoder is None else self._key_decoder(self._raw_key)

    @cached_property
    def message(self) -> Any:
        return self._raw_message if self._value_decoder is None else self._value_decoder(self._raw_message)

    def __repr__(self) -> str:
        return f"KafkaMessageAndMetadata(topic: {self.topic}, partition: {self.partition}, offset: {self.offset})"


class MessageHandler:
    """Calls a handler of PySpark 2.4 with each record; the records come as bytes."""

    def __init__(
        self, function: Callable[[Any], Any], key_decoder: Decoder | None, value_decoder: Decoder | None
    ) -> None:
        if not callable(function):
            raise ArgumentTypeError(f"messageHandler must be a function, or None; it is {function!r}.")
        self._function = function
        self._decoders = key_decoder, value_decoder

    def __call__(self, record: KafkaMessage) -> Any:
        return self._function(KafkaMessageAndMetadata.of(record, *self._decoders))

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> MessageHandler:
        return cls(**state)

    def __reduce__(self) -> tuple[Any, ...]:
        key_decoder, value_decoder = self._decoders
        state = {"function": self._function, "key_decoder": key_decoder, "value_decoder": value_decoder}
        return persisted(self, "message-handler", state)
