"""`FakeBrokers`: the engine's port onto a `FakeKafka`, for one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import BrokerError, BrokerUnavailable, ConfigError
from kafka_direct.offsets import Available, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka_direct.options import Subscription

    from .fake_kafka import FakeKafka
    from .fake_log import FakeLog, FakeTopic

READS_COMMITTED = {"read_uncommitted": False, "read_committed": True}


class FakeBrokers:
    """Answers like `KafkaBrokers`, at once. `is_stopped` and `is_closed` show a test which methods were called."""

    def __init__(self, kafka: FakeKafka, group: str | None, isolation: str) -> None:
        self.group = group
        self.is_stopped = False
        self.is_closed = False
        self._kafka = kafka
        self._reads_committed = READS_COMMITTED[isolation]

    def find_available(self, subscription: Subscription) -> Available:
        self._ask("find_available", f"describing {subscription}")
        return self._available(subscription)

    def require_available(self, subscription: Subscription) -> Available:
        self._ask("require_available", f"describing {subscription}")
        while True:  # as long as some broker has not caught up, as the real port does
            behind = self._kafka.answers_behind
            available = self._available(subscription)
            topics = {partition.topic for partition in available.latest}
            missing = (subscription.topics - topics) | (subscription.partitions - available.latest.keys())
            if not missing:
                return available
            if self._kafka.answers_behind == behind:
                kind = "topic" if subscription.topics else "partition"
                names = ", ".join(sorted(map(str, missing)))
                raise ConfigError(
                    f"there is no {kind} {names} on Kafka at {self._kafka.servers}; create it, or correct the name."
                )

    def find_topic_ids(self, topics: Iterable[str], *, seconds: float) -> dict[str, str]:  # noqa: ARG002
        names = sorted(topics)
        if not names:
            return {}
        self._ask("find_topic_ids", f"describing {', '.join(names)}")
        return self._ids(self._described(names))

    def find_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        if not times_ms:
            return {}
        self._ask("find_times", f"listing offsets of {_topics(times_ms)}")
        logs = self._logs(times_ms)
        return {
            partition: logs[partition].find_time(time, self._end(logs[partition])) if partition in logs else None
            for partition, time in times_ms.items()
        }

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.group is None or not partitions:
            return {}
        self._ask("committed", f"reading committed offsets of group {self.group}")
        self._described({partition.topic for partition in partitions})  # refused if one of them is hidden
        committed = self._kafka.groups.get(self.group, {})
        return {partition: committed[partition] for partition in sorted(partitions) if partition in committed}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self.group is None or not offsets:
            return
        doing = f"committing offsets of group {self.group}"
        self._ask("commit", doing)
        logs = _logs_of(self._visible())
        taken = {partition: offset for partition, offset in offsets.items() if partition in logs}
        if taken:
            self._kafka.commit(self.group, taken)
        self._described({partition.topic for partition in offsets})  # refused if one of them is hidden
        if len(taken) < len(offsets):
            reason = "Commit failed: Broker: Unknown topic or partition; create the topic, or correct its name"
            raise self._refusal(doing, reason, "UNKNOWN_TOPIC_OR_PART")

    def stop(self) -> None:
        self.is_stopped = True

    def close(self) -> None:
        self.is_closed = True

    def _ask(self, question: str, asking: str) -> None:
        servers = self._kafka.servers
        if self.is_closed:
            raise BrokerUnavailable(f"the connection to Kafka at {servers} is closed.", servers=servers)
        self._kafka.ask(question, asking)

    def _available(self, subscription: Subscription) -> Available:
        if subscription.pattern is None:
            topics = self._described(subscription.topics | {partition.topic for partition in subscription.partitions})
        else:
            topics = {name: topic for name, topic in self._visible().items() if subscription.matches(name)}
        logs = {partition: log for partition, log in _logs_of(topics).items() if subscription.covers(partition)}
        seen = {partition: self._kafka.see_end(partition, self._end(log)) for partition, log in sorted(logs.items())}
        latest = {partition: end for partition, end in seen.items() if end is not None}
        return Available(
            earliest={partition: logs[partition].earliest for partition in latest},
            latest=latest,
            topic_ids=self._ids(topics),
        )

    def _visible(self) -> dict[str, FakeTopic]:
        return {name: topic for name, topic in self._kafka.topics.items() if not topic.is_hidden}

    def _described(self, names: Iterable[str]) -> dict[str, FakeTopic]:
        """The topics of these names that exist; those that are hidden are refused, as without an ACL."""
        topics = {name: topic for name in sorted(names) if (topic := self._kafka.topics.get(name)) is not None}
        for name, topic in topics.items():
            if topic.is_hidden:
                reason = "Broker: Topic authorization failed; allow this user the topic (kafka-acls)"
                raise self._refusal(f"describing {name}", reason, "TOPIC_AUTHORIZATION_FAILED")
        return topics

    def _logs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, FakeLog]:
        logs = _logs_of(self._described({partition.topic for partition in partitions}))
        return {partition: logs[partition] for partition in partitions if partition in logs}

    def _ids(self, topics: Mapping[str, FakeTopic]) -> dict[str, str]:
        return {name: topic.id for name, topic in topics.items()} if self._kafka.gives_topic_ids else {}

    def _end(self, log: FakeLog) -> int:
        return log.stable_end if self._reads_committed else log.end

    def _refusal(self, asking: str, reason: str, code: str) -> BrokerError:
        return BrokerError(f"Kafka at {self._kafka.servers} refused while {asking}: {reason}.", code=code)


def _logs_of(topics: Mapping[str, FakeTopic]) -> dict[TopicPartition, FakeLog]:
    return {
        TopicPartition(name, number): log for name, topic in topics.items() for number, log in enumerate(topic.logs)
    }


def _topics(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(sorted({partition.topic for partition in partitions}))
