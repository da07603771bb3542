"""`Cluster`: what the driver asks the brokers for each batch: partitions, first offsets and ends, offsets by time.

Each kind of question is one round trip to each broker, however many partitions there are. Independent questions are
sent together.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # a public name

from kafka_direct.broker.deadline import Deadline, look_again
from kafka_direct.broker.failure import TOPIC, right_on, translate
from kafka_direct.errors import ConfigError
from kafka_direct.offsets import Available, TopicPartition

from .connection import Connection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka.admin import AdminClient

    from kafka_direct.options import ClientParams, Subscription

# The broker that is asked may not know a topic that was created a moment ago. After this time, the topic is gone.
NEW_TOPIC_SECONDS = 5.0


class Cluster:
    """The questions about topics and offsets, asked through one connection.

    They need DESCRIBE on a topic. What else this user `needs` there includes that, and is what errors name.
    """

    def __init__(self, params: ClientParams, *, needs: str = "READ") -> None:
        self.needs = needs
        self.connection = Connection(params)
        self._params = params
        self._isolation = IsolationLevel[params.isolation_level.upper()]

    def find_partitions(self, subscription: Subscription) -> tuple[frozenset[TopicPartition], dict[str, str]]:
        """The partitions that exist of a subscription, and the ids of their topics. What does not exist is left out."""
        deadline = self.connection.deadline()
        if subscription.pattern is not None:
            names = frozenset(name for name in self.connection.list_topics(deadline) if subscription.matches(name))
        else:
            names = subscription.topics | {partition.topic for partition in subscription.partitions}
        described = self._describe(names, deadline)
        partitions = frozenset(
            partition
            for name, topic in described.items()
            for info in topic.partitions
            if subscription.covers(partition := TopicPartition(name, info.id))
        )
        return partitions, _ids(described)

    def find_topic_ids(self, names: Iterable[str], *, seconds: float) -> dict[str, str]:
        """The ids of the topics that exist, if the brokers say so in that time."""
        return _ids(self._describe(names, Deadline(seconds)))

    def require(self, subscription: Subscription) -> tuple[frozenset[TopicPartition], dict[str, str]]:
        """`find_partitions`, refusing a name or a partition that does not exist.

        A pattern may match nothing yet.
        """

        def missing(found: tuple[frozenset[TopicPartition], dict[str, str]]) -> list[str]:
            topics = {partition.topic for partition in found[0]}
            return sorted(map(str, (subscription.topics - topics) | (subscription.partitions - found[0])))

        find, deadline = partial(self.find_partitions, subscription), Deadline(NEW_TOPIC_SECONDS)
        found = look_again(find, deadline, is_enough=lambda found: not missing(found))
        if names := missing(found):
            kind = "topic" if subscription.topics else "partition"
            raise ConfigError(
                f"there is no {kind} {', '.join(names)} on Kafka at {self.connection.servers}; create it, or correct "
                "the name."
            )
        return found

    def find_offsets(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> Available:
        """The first offset and the end of each partition, at the isolation level of the read.

        What has been deleted since it was found is left out.
        """
        first, end = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
        earliest, latest = self._list_offsets(dict.fromkeys(partitions, first), dict.fromkeys(partitions, end))
        known = earliest.keys() & latest.keys()
        return Available(
            earliest={p: offset for p, offset in earliest.items() if p in known},
            latest={p: offset for p, offset in latest.items() if p in known},
            topic_ids=topic_ids,
        )

    def find_available(self, subscription: Subscription) -> Available:
        """Everything that planning a batch needs to know. What does not exist is left out."""
        return self.find_offsets(*self.find_partitions(subscription))

    def require_available(self, subscription: Subscription) -> Available:
        """`find_available`, refusing a name or a partition that does not exist."""
        while True:
            partitions, topic_ids = self.require(subscription)
            available = self.find_offsets(partitions, topic_ids)
            if available.latest.keys() == partitions:
                return available

    def find_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time, per partition; None if there is none."""
        (offsets,) = self._list_offsets({p: OffsetSpec.for_timestamp(ms) for p, ms in times_ms.items()})
        return {partition: offset if (offset := offsets.get(partition, -1)) >= 0 else None for partition in times_ms}

    def _describe(self, names: Iterable[str], deadline: Deadline) -> dict[str, Any]:
        names = list(names)
        if not names:
            return {}

        def describe(admin: AdminClient, seconds: float) -> dict[str, Any]:
            futures = admin.describe_topics(TopicCollection(names), request_timeout=seconds)
            answers = {name: self._answer(future, name) for name, future in futures.items()}
            return {name: topic for name, topic in answers.items() if topic is not None}

        return self.connection.ask(describe, f"describing {_abridged(names)}", deadline)

    def _list_offsets(self, *specs: Mapping[TopicPartition, OffsetSpec]) -> list[dict[TopicPartition, int]]:
        new_topic = Deadline(NEW_TOPIC_SECONDS)

        def list_offsets(admin: AdminClient, seconds: float) -> list[dict[TopicPartition, int]]:
            asked = [
                admin.list_offsets(
                    {ClientPartition(p.topic, p.partition): spec for p, spec in wanted.items()},
                    isolation_level=self._isolation,
                    request_timeout=seconds,
                )
                for wanted in specs
                if wanted
            ]
            answers = [
                {
                    TopicPartition(p.topic, p.partition): found.offset
                    for p, future in futures.items()
                    if (found := self._answer(future, p.topic, is_unknown_final=new_topic.is_over())) is not None
                }
                for futures in asked
            ]
            return answers or [{} for _ in specs]

        names = sorted({partition.topic for wanted in specs for partition in wanted})
        return self.connection.ask(list_offsets, f"listing offsets of {_abridged(names)}")

    def _answer(self, future: Any, topic: str, *, is_unknown_final: bool = True) -> Any:
        """None for what the broker does not know, if it is asked for the last time."""
        failure = future.exception()
        if failure is None:
            return future.result()
        if not isinstance(failure, KafkaException):
            raise failure
        error = failure.args[0]
        if is_unknown_final and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        if error.code() == TOPIC:
            includes = "" if self.needs == "DESCRIBE" else ", which includes DESCRIBE"
            rights = {TOPIC: right_on(self.needs, [topic]) + includes}
            raise translate(error, f"asking for topic {topic}", self._params, rights=rights)
        # A new exception: the old one, once raised, would hold the frames that hold its future, and so the client.
        raise KafkaException(error)


def _ids(described: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(topic.topic_id) for name, topic in described.items() if topic.topic_id is not None}


def _abridged(names: Collection[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - 3} more topics" if len(names) > 3 else "")
