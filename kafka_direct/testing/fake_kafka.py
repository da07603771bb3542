"""`FakeKafka`: a cluster in memory, for tests of what is planned and when. Nothing in it happens by itself.

    kafka = FakeKafka()
    topic = kafka.create_topic(partitions=2)
    kafka.append(topic, 0, 100)
    brokers = kafka.brokers(group="billing")

The contract tests (tests/engine/test_brokers_contract.py) are run on it and on real brokers.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import deque
from typing import TYPE_CHECKING, Literal

from kafka_direct.errors import BrokerError, BrokerUnavailable, KafkaDirectError
from kafka_direct.offsets import TopicPartition

from .fake_brokers import FakeBrokers
from .fake_log import FakeLog, FakeTopic, FakeTransaction

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"


class FakeKafka:
    """Topics, records as counts and timestamps, transactions, consumer groups, and when brokers do not answer.

    Tests may read `topics`, `groups` and `questions`, the names of the `Brokers` methods that were called. There is no
    clock: records without a timestamp have that of the newest record, at first 0.
    """

    servers = "fake:9092"

    def __init__(self, *, gives_topic_ids: bool = True) -> None:
        self.gives_topic_ids = gives_topic_ids  # brokers before 2.8 give none
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.questions: list[str] = []
        self._ids_given = 0
        self._newest_ms = 0
        self._answers_left: int | None = None  # None: no limit
        self._failures: deque[tuple[str | None, type[KafkaDirectError]]] = deque()
        self._ends_behind: dict[TopicPartition, deque[int | None]] = {}

    def brokers(
        self, group: str | None = None, isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    ) -> FakeBrokers:
        """The port of one stream, with its group."""
        return FakeBrokers(self, group, isolation)

    # -- topics

    def create_topic(self, name: str | None = None, partitions: int = 1) -> str:
        """Create a topic, by default of a new name, and return its name."""
        self._ids_given += 1
        name = f"topic-{self._ids_given}" if name is None else name
        if name in self.topics:
            raise ValueError(f"there is a topic {name} already.")
        topic_id = urlsafe_b64encode(self._ids_given.to_bytes(16)).decode().rstrip("=")
        self.topics[name] = FakeTopic(topic_id, [FakeLog() for _ in range(partitions)])
        return name

    def add_partitions(self, topic: str, count: int = 1) -> None:
        self.topics[topic].logs.extend(FakeLog() for _ in range(count))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and what groups have committed in it."""
        del self.topics[topic]
        for group, committed in self.groups.items():
            self.groups[group] = {p: offset for p, offset in committed.items() if p.topic != topic}

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it again, empty and with another id."""
        partitions = len(self.topics[topic].logs)
        self.delete_topic(topic)
        self.create_topic(topic, partitions)

    def hide_topic(self, topic: str) -> None:
        """Hide a topic, like a missing ACL does: no pattern finds it, and questions about it are refused."""
        self.topics[topic].is_hidden = True

    def show_topic(self, topic: str) -> None:
        self.topics[topic].is_hidden = False

    # -- records

    def append(self, topic: str, partition: int, count: int, timestamp_ms: int | None = None) -> int:
        """Append records of one timestamp and return the offset of the first."""
        return self._log(topic, partition).append(count, self._stamp(timestamp_ms))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Remove the records before an offset, as retention does."""
        self._log(topic, partition).delete_records(before)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Cut the log at an offset, as an unclean election does."""
        self._log(topic, partition).truncate(end)

    def open_transaction(self, topic: str, partition: int) -> FakeTransaction:
        """Begin a transaction in one partition."""
        if TRANSACTIONS_TOPIC not in self.topics:
            self.create_topic(TRANSACTIONS_TOPIC)
        return FakeTransaction(self._log(topic, partition), self._stamp)

    # -- groups

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as some consumer of the group."""
        if OFFSETS_TOPIC not in self.topics:
            self.create_topic(OFFSETS_TOPIC)
        self.groups.setdefault(group, {}).update(offsets)

    # -- trouble

    def go_away(self, *, after: int = 0) -> None:
        """Answer `after` more questions, and then none until `come_back`."""
        self._answers_left = after

    def come_back(self) -> None:
        self._answers_left = None

    def fail_next(self, questions: int = 1, *, of: str | None = None) -> None:
        """Do not answer the next questions, or the next of one kind, as in `fail_next(of="commit")`."""
        self._failures.extend([(of, BrokerUnavailable)] * questions)

    def refuse_next(self, questions: int = 1, *, of: str | None = None) -> None:
        """Refuse the next questions, or the next of one kind."""
        self._failures.extend([(of, BrokerError)] * questions)

    def fall_behind(self, topic: str, partition: int, *, end: int | None, questions: int = 1) -> None:
        """Let the next answers about a partition be those of a broker that has not caught up.

        It has this `end`, or with None it does not know the partition yet.
        """
        self._ends_behind.setdefault(TopicPartition(topic, partition), deque()).extend([end] * questions)

    # -- what `FakeBrokers` asks

    def ask(self, question: str, asking: str) -> None:
        """Note a question, and raise if it gets no answer."""
        self.questions.append(question)
        if self._answers_left == 0:
            raise self._failure(BrokerUnavailable, asking)
        if self._answers_left is not None:
            self._answers_left -= 1
        for failure in self._failures:
            if failure[0] in (None, question):
                self._failures.remove(failure)
                raise self._failure(failure[1], asking)

    @property
    def answers_behind(self) -> int:
        """How many answers of brokers that have not caught up are still to come."""
        return sum(map(len, self._ends_behind.values()))

    def see_end(self, partition: TopicPartition, end: int) -> int | None:
        """The end of a partition by the broker that is asked; None if it does not know the partition."""
        behind = self._ends_behind.get(partition)
        return behind.popleft() if behind else end

    def _failure(self, kind: type[KafkaDirectError], asking: str) -> KafkaDirectError:
        if kind is BrokerError:
            return BrokerError(
                f"Kafka at {self.servers} refused while {asking}: Broker: Cluster authorization failed.",
                code="CLUSTER_AUTHORIZATION_FAILED",
            )
        return BrokerUnavailable(
            f"no answer from Kafka at {self.servers} while {asking}: Local: Timed out; check bootstrap.servers, the "
            "network and the security settings.",
            servers=self.servers,
        )

    def _log(self, topic: str, partition: int) -> FakeLog:
        return self.topics[topic].logs[partition]

    def _stamp(self, timestamp_ms: int | None) -> int:
        timestamp_ms = self._newest_ms if timestamp_ms is None else timestamp_ms
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        return timestamp_ms
