"""Every error this package raises, and who can act on it.

KafkaDirectError
├── ConfigError            the caller: an option, an argument or a position is not valid
│   └── ArgumentTypeError  the caller: an argument has a wrong type (also a TypeError, as PySpark 2.4 raised)
├── BrokerUnavailable      Kafka or the network: no answer in time; another try may help
├── BrokerError            Kafka: it answered with an error
├── StoreUnavailable       the checkpoint's file system: it cannot be used now (also an OSError); another try may help
├── OffsetsLost            the operator: records that were to be read are not there any more
├── CorruptLog             the operator: a file of the offset log is torn, or was not written by this package
├── OutOfOrder             the operator: an earlier batch is not in the output yet, and must come first
├── Fenced                 nobody: another driver has taken over, this one must stop
└── Refused                the operator: the command would do harm as things are

A text is one sentence: what happened, the numbers, what to do. Errors travel from Spark's workers to the driver, so
each survives pickling with its attributes. An attribute is None where the place that raised the error does not know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_direct.offsets.model.loss import Loss


class KafkaDirectError(Exception):
    """Base of every error this package raises."""

    retriable = False  # whether another try may help, without a change


class ConfigError(KafkaDirectError):
    """An option, argument or position was refused before any data moved."""


class ArgumentTypeError(ConfigError, TypeError):
    """An argument has a type that cannot be what was meant."""


class BrokerUnavailable(KafkaDirectError):
    """No broker answered within the time allowed. `servers` are the addresses that were tried."""

    retriable = True

    def __init__(self, message: str, *, servers: str | None = None) -> None:
        super().__init__(message)
        self.servers = servers


class BrokerError(KafkaDirectError):
    """A broker answered with an error that another try does not change. `code` is Kafka's name of it."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreUnavailable(KafkaDirectError, OSError):
    """The file system of a checkpoint did not do what it was asked. `path` is the file or folder."""

    retriable = True

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class OffsetsLost(KafkaDirectError):
    """Records that were to be read are gone. `losses` holds what was wanted and what is there, per partition."""

    def __init__(self, message: str, *, losses: tuple[Loss, ...] = ()) -> None:
        super().__init__(message)
        self.losses = losses


class CorruptLog(KafkaDirectError):
    """A file of the offset log is torn, foreign, or contradicts another one. `path` names it."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class OutOfOrder(KafkaDirectError):
    """An earlier batch must be saved before this one; after a restart both run again in order."""


class Fenced(KafkaDirectError):
    """Another driver writes the same offset log or output; this one must stop.

    `path` is the file that the other one wrote; `owner` is the other driver, and `epoch` the number of this one's turn;
    `writer` is the producer that has a newer copy.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        owner: str | None = None,
        epoch: int | None = None,
        writer: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path, self.owner, self.epoch, self.writer = path, owner, epoch, writer


class Refused(KafkaDirectError):
    """The command would do harm as things are; the message names the reason and the way out."""
