"""`Subscription`: which topics and partitions a stream reads, from its `topics` argument."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets.model.topic_partition import TopicPartition

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's own rule; . and .. are not names either
INTERNAL_PREFIX = "__"

_FORMS = "a list of names, a compiled pattern, or a list of TopicPartition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics of a stream: by name, by pattern, or partition by partition. One of the three fields is set.

    >>> Subscription.parse(re.compile("orders-.*")).matches("orders-eu")
    True
    >>> print(Subscription.parse(["orders", "clicks"]))
    topics clicks, orders
    """

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] = frozenset()

    @classmethod
    def parse(cls, topics: Any) -> Subscription:
        """Read the `topics` argument.

        Raises:
            ArgumentTypeError: it has none of the three forms, or mixes them.
            ConfigError: it is empty, has a name twice, or has a name that no topic can have.
        """
        if isinstance(topics, Subscription):
            return topics
        if isinstance(topics, re.Pattern):
            return cls(pattern=_text_pattern(topics))
        if isinstance(topics, str):
            names = [name.strip() for name in topics.split(",")]
            raise ArgumentTypeError(f"topics must be a list: {names}; it is the text {topics!r}.")
        if not isinstance(topics, (list, tuple, set, frozenset)):
            raise ArgumentTypeError(f"topics must be {_FORMS}; it is a {type(topics).__name__}.")
        if len(topics) == 0:
            raise ConfigError(f"topics is empty; give {_FORMS}.")
        _refuse_mixture(topics)
        _refuse_duplicates(topics)
        for element in topics:
            _check_name(element.topic if isinstance(element, TopicPartition) else element)
        if all(isinstance(element, str) for element in topics):
            return cls(topics=frozenset(topics))
        return cls(partitions=frozenset(topics))

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> Subscription:
        match state:
            case {"topics": names}:
                return cls(topics=frozenset(names))
            case {"pattern": text, "flags": flags}:
                return cls(pattern=re.compile(text, flags))
        return cls(partitions=frozenset(TopicPartition(*partition) for partition in state["partitions"]))

    def __reduce__(self) -> tuple[Any, ...]:
        state: dict[str, Any] = {"partitions": [(p.topic, p.partition) for p in sorted(self.partitions)]}
        if self.pattern is not None:
            state = {"pattern": self.pattern.pattern, "flags": self.pattern.flags}
        elif self.topics:
            state = {"topics": sorted(self.topics)}
        return persisted(self, "subscription", state)

    def matches(self, topic: str) -> bool:
        """Whether some partition of the topic is read. A pattern matches whole names, and never Kafka's own topics.

        >>> Subscription.parse(re.compile(".*")).matches("__consumer_offsets")
        False
        """
        if self.pattern is not None:
            return not topic.startswith(INTERNAL_PREFIX) and self.pattern.fullmatch(topic) is not None
        return topic in self.topics or any(partition.topic == topic for partition in self.partitions)

    def covers(self, partition: TopicPartition) -> bool:
        """Whether this partition is read.

        >>> Subscription.parse([TopicPartition("orders", 0)]).covers(TopicPartition("orders", 1))
        False
        """
        if len(self.partitions) > 0:
            return partition in self.partitions
        return self.matches(partition.topic)

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics that match {self.pattern.pattern!r}"
        if len(self.topics) > 0:
            return f"topics {', '.join(sorted(self.topics))}"
        return f"partitions {', '.join(str(partition) for partition in sorted(self.partitions))}"


def _text_pattern(pattern: re.Pattern[Any]) -> re.Pattern[str]:
    if not isinstance(pattern.pattern, str):
        raise ArgumentTypeError(f"The pattern {pattern.pattern!r} matches bytes; topic names are text: drop the b.")
    return pattern


def _refuse_mixture(topics: Any) -> None:
    kinds = {TopicPartition if isinstance(element, TopicPartition) else type(element) for element in topics}
    if kinds not in ({str}, {TopicPartition}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ArgumentTypeError(f"topics must be {_FORMS}; it holds {names}.")


def _refuse_duplicates(topics: Any) -> None:
    twice = sorted(str(element) for element, count in Counter(topics).items() if count > 1)
    if twice:
        raise ConfigError(f"topics names {', '.join(twice)} twice; name each once.")


def _check_name(topic: str) -> None:
    if LEGAL_NAME.fullmatch(topic) is None or topic in (".", ".."):
        raise ConfigError(
            f"{topic!r} is not a topic name: Kafka allows 1 to 249 of the characters a-z A-Z 0-9 . _ -"
            " (for a pattern, pass re.compile(...))."
        )
