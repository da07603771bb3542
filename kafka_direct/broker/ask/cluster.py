"""`Cluster`: what the driver asks of the brokers, a batch at a time: partitions, ends, offsets by time.

One round trip per broker and kind of question, however many partitions there are; independent questions travel
together.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # a public name

from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.failure import build_client, is_passing, servers_of, translate
from kafka_direct.errors import BrokerUnavailable, ConfigError, KafkaDirectError
from kafka_direct.offsets import Available, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import TypeVar

    from kafka_direct.options import ClientParams, Subscription

    T = TypeVar("T")

# A client that never had an answer is most likely told the wrong address; one that had is watching a restart.
FIRST_ANSWER_SECONDS = 20.0
LATER_ANSWER_SECONDS = 60.0
# A topic that was created a moment ago may be unknown to the broker that is asked; after this, it is gone.
NEW_TOPIC_SECONDS = 5.0
PAUSE_SECONDS = 0.2
# A question to a leader that has died waits for it to come back: it is asked again, of the next leader.
ATTEMPT_SECONDS = 5.0


class Cluster:
    """A connection of the driver to Kafka, made at the first question and kept."""

    def __init__(self, params: ClientParams) -> None:
        self._params = params
        self._servers = servers_of(params)
        self._isolation = (
            IsolationLevel.READ_COMMITTED
            if params.isolation_level == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )
        self._admin: AdminClient | None = None
        self._news = _News()
        self._answered = False
        self._stopped = threading.Event()
        self._is_closed = False

    def stop(self) -> None:
        """Ask nothing a second time any more, so that nobody waits for brokers that are away."""
        self._stopped.set()

    def close(self) -> None:
        """Let go of the connection: to brokers that are gone it would knock for ever, and busily."""
        self._is_closed = True
        self._admin = None

    def ask(self, question: Callable[[AdminClient], T], asking: str) -> T:
        """The answer to any other question, asked again while the answer may pass."""
        return self._ask(question, asking, self._deadline())

    def find_partitions(self, subscription: Subscription) -> tuple[frozenset[TopicPartition], dict[str, str]]:
        """The partitions that exist of a subscription, and the ids of their topics. What does not exist is left out."""
        deadline = self._deadline()
        if subscription.pattern is not None:
            names = frozenset(name for name in self._list_topics(deadline) if subscription.matches(name))
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

    def complaint(self, topic: str, *, seconds: float) -> str:
        """What the connection complains of, as of TLS or a password; nothing if the brokers answer in that time."""
        try:
            self.find_topic_ids([topic], seconds=seconds)
        except ConfigError as error:
            return str(error)
        except KafkaDirectError:
            return self._news.complaint
        return ""

    def require(self, subscription: Subscription) -> tuple[frozenset[TopicPartition], dict[str, str]]:
        """`find_partitions`, refusing a name or a partition that does not exist.

        A pattern may match nothing yet.
        """
        deadline = Deadline(NEW_TOPIC_SECONDS)
        while True:
            partitions, topic_ids = self.find_partitions(subscription)
            topics = {partition.topic for partition in partitions}
            missing = sorted(map(str, (subscription.topics - topics) | (subscription.partitions - partitions)))
            if not missing:
                return partitions, topic_ids
            if deadline.is_over():
                kind = "topic" if subscription.topics else "partition"
                raise ConfigError(
                    f"there is no {kind} {', '.join(missing)} on Kafka at {self._servers}; create it, or correct the "
                    "name."
                )
            time.sleep(PAUSE_SECONDS)

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
        partitions, topic_ids = self.find_partitions(subscription)
        return self.find_offsets(partitions, topic_ids)

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

    def _list_topics(self, deadline: Deadline) -> list[str]:
        metadata = self._ask(lambda admin: admin.list_topics(timeout=_attempt(deadline)), "listing topics", deadline)
        return sorted(metadata.topics)

    def _describe(self, names: Iterable[str], deadline: Deadline) -> dict[str, Any]:
        names = list(names)
        if not names:
            return {}

        def describe(admin: AdminClient) -> dict[str, Any]:
            futures = admin.describe_topics(TopicCollection(names), request_timeout=_attempt(deadline))
            return {name: topic for name, future in futures.items() if (topic := _answer(future)) is not None}

        return self._ask(describe, f"describing {_some(names)}", deadline)

    def _list_offsets(self, *specs: Mapping[TopicPartition, OffsetSpec]) -> list[dict[TopicPartition, int]]:
        deadline, patience = self._deadline(), Deadline(NEW_TOPIC_SECONDS)

        def list_offsets(admin: AdminClient) -> list[dict[TopicPartition, int]]:
            asked = [
                admin.list_offsets(
                    {ClientPartition(p.topic, p.partition): spec for p, spec in wanted.items()},
                    isolation_level=self._isolation,
                    request_timeout=_attempt(deadline),
                )
                for wanted in specs
                if wanted
            ]
            answers = [
                {
                    TopicPartition(p.topic, p.partition): found.offset
                    for p, future in futures.items()
                    if (found := _answer(future, is_unknown_final=patience.is_over())) is not None
                }
                for futures in asked
            ]
            return answers or [{} for _ in specs]

        names = sorted({partition.topic for wanted in specs for partition in wanted})
        return self._ask(list_offsets, f"listing offsets of {_some(names)}", deadline)

    def _ask(self, question: Callable[[AdminClient], T], asking: str, deadline: Deadline) -> T:
        admin = self._client()
        admin.poll(0)
        while True:
            try:
                self._know_brokers(admin, deadline)
                answer = question(admin)
            except KafkaException as failure:
                self._news.knows_brokers = False
                admin.poll(0)  # lets the connection's own complaint arrive
                error = failure.args[0]
                if not is_passing(error) or deadline.is_over() or self._stopped.wait(PAUSE_SECONDS):
                    raise translate(error, asking, self._servers, self._news.complaint) from failure
            else:
                admin.poll(0)
                self._answered = True
                return answer

    def _know_brokers(self, admin: AdminClient, deadline: Deadline) -> None:
        """Have the client learn who leads now; it would wait for a dead controller for minutes, and busily."""
        if not self._news.knows_brokers:
            admin.list_topics(timeout=_attempt(deadline))
            self._news.knows_brokers = True

    def _client(self) -> AdminClient:
        if self._is_closed:
            raise BrokerUnavailable(f"the connection to Kafka at {self._servers} is closed.", servers=self._servers)
        if self._admin is None:
            self._admin = build_client(AdminClient, self._params.for_admin(), error_cb=self._news)
        return self._admin

    def _deadline(self) -> Deadline:
        return Deadline(LATER_ANSWER_SECONDS if self._answered else FIRST_ANSWER_SECONDS)


class _News:
    """What a connection says unasked.

    An object of its own: a method of `Cluster` would keep both until Python looks for cycles, and the connection goes
    on knocking at brokers that are gone.
    """

    def __init__(self) -> None:
        self.complaint = ""
        self.knows_brokers = True  # or one of them has gone away since they were listed

    def __call__(self, error: KafkaError) -> None:
        self.knows_brokers = False
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.complaint = error.str()


def _ids(described: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(topic.topic_id) for name, topic in described.items() if topic.topic_id is not None}


def _attempt(deadline: Deadline) -> float:
    return min(max(deadline.left(), 0.1), ATTEMPT_SECONDS)


def _answer(future: Any, *, is_unknown_final: bool = True) -> Any:
    """None for what the broker does not know, if it is asked for the last time."""
    failure = future.exception()
    if failure is None:
        return future.result()
    if not isinstance(failure, KafkaException):
        raise failure
    if is_unknown_final and failure.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return None
    # Another one: raised itself, it would hold the frames that hold its future, and so the client.
    raise KafkaException(failure.args[0])


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - 3} more topics" if len(names) > 3 else "")
