"""Every error this package raises, by whose move is next.

KafkaDirectError
├── ConfigError            the caller's: an option, an argument, a position that cannot be what was meant
│   └── ArgumentTypeError  the same, of a wrong type (also a TypeError, as PySpark 2.4 raised)
├── BrokerUnavailable      Kafka's or the network's: no answer in time; trying again may help
├── BrokerError            Kafka answered, and said no
├── OffsetsLost            the operator's: records that were to be read are not there any more
├── CorruptLog             the operator's: a file of the offset log is torn or not ours
├── OutOfOrder             the operator's: an earlier batch is not in the output yet, and must come first
├── Fenced                 nobody's here: another driver has taken over, this one must stop
└── Refused                the operator's: it can be done, and would do harm as things stand

Texts are one sentence: what happened, the numbers, what to do. Errors cross from Spark's workers to the driver,
so each survives pickling with its attributes.
"""

from __future__ import annotations

from typing import Any


class KafkaDirectError(Exception):
    """Base of every error this package raises."""

    retriable = False

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.__dict__.update(facts)


class ConfigError(KafkaDirectError):
    """An option, argument or position was refused before any data moved."""


class ArgumentTypeError(ConfigError, TypeError):
    """An argument has a type that cannot be what was meant."""


class BrokerUnavailable(KafkaDirectError):
    """No broker answered within the time allowed."""

    retriable = True


class BrokerError(KafkaDirectError):
    """A broker answered with an error that trying again does not mend."""


class OffsetsLost(KafkaDirectError):
    """Records that were to be read are gone. `losses` holds what was wanted and what is there, per partition."""


class CorruptLog(KafkaDirectError):
    """A file of the offset log is torn, foreign, or contradicts another one. `path` names it."""


class OutOfOrder(KafkaDirectError):
    """A batch was to be saved before the one that comes first; after a restart both run again in order."""


class Fenced(KafkaDirectError):
    """Another driver writes the same offset log or output; this one must stop."""


class Refused(KafkaDirectError):
    """What was asked for would do harm as things stand; the message names the reason and the way out."""
