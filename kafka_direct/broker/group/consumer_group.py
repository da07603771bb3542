"""`ConsumerGroup`: the committed offsets of a group, read and written without joining it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.deadline import Deadline, ask_again
from kafka_direct.broker.failure import GROUP, TOPIC, build_client, close_client, is_passing, right_on, translate
from kafka_direct.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeVar

    from kafka_direct.options import ClientParams

    T = TypeVar("T")

ANSWER_SECONDS = 30.0  # a coordinator that restarts loads its groups in less
ATTEMPT_SECONDS = 2.0  # between two looks at what the client has to say of its group


class ConsumerGroup:
    """The offsets of the group named by `group.id`.

    To read them takes DESCRIBE on the group and its topics. What else this user `needs` there is what errors name.
    """

    def __init__(self, params: ClientParams, *, needs: str = "READ") -> None:
        self._needs = needs
        self._params = params
        self._consumer: Consumer | None = None
        self._files = params.state_of_files()
        self._metadata: Any = None

    def progress(
        self, partitions: Collection[TopicPartition], *, seconds: float = ANSWER_SECONDS
    ) -> dict[TopicPartition, tuple[int, str]]:
        """The committed offset and its text, of each partition that has one. Raises if one of them has an error.

        At the isolation level `read_committed` the answer waits for transactions that are open.
        """
        asked = [ClientPartition(p.topic, p.partition) for p in sorted(partitions)]
        topics = {p.topic for p in partitions}

        def ask(consumer: Consumer) -> list[ClientPartition]:
            answers = consumer.committed(asked, timeout=min(seconds, ATTEMPT_SECONDS))
            if refused := [answer for answer in answers if answer.error is not None]:
                topics.intersection_update(answer.topic for answer in refused)
                raise KafkaException(refused[0].error)
            return answers

        answers = self._ask(ask, "reading committed offsets", topics, seconds) if asked else []
        return {TopicPartition(p.topic, p.partition): (p.offset, p.metadata or "") for p in answers if p.offset >= 0}

    def metadata(self) -> Any:
        """What a transaction needs to know of the group. It has no members, so that does not change."""
        if self._metadata is None:  # it costs 15 ms
            self._metadata = self._ask(lambda consumer: consumer.consumer_group_metadata(), "looking for the group", ())
        return self._metadata

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offset of each partition that has one."""
        return {partition: offset for partition, (offset, _) in self.progress(partitions).items()}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the next offset to read, per partition."""
        committed = [ClientPartition(p.topic, p.partition, offset) for p, offset in sorted(offsets.items())]
        if not committed:
            return
        if self._consumer is None:
            self.committed(offsets)  # finds the coordinator, or says why not: a commit would wait for it in silence
        topics = {p.topic for p in offsets}
        self._ask(lambda consumer: consumer.commit(offsets=committed, asynchronous=False), "committing offsets", topics)

    def close(self) -> None:
        if self._consumer is not None:
            close_client(self._consumer)
            self._consumer = None

    def _ask(
        self,
        question: Callable[[Consumer], T],
        asking: str,
        topics: Collection[str],
        seconds: float = ANSWER_SECONDS,
    ) -> T:
        if self._consumer is None:
            # A new client drops its first connection when it learns whose it is: 10 ms until the next, not 100.
            self._files = self._params.state_of_files()
            self._consumer = build_client(Consumer, {"reconnect.backoff.ms": 10} | self._params.for_group())
        consumer = self._consumer
        try:
            return ask_again(
                lambda: question(consumer), Deadline(seconds), wait=partial(_serve, consumer), may_pass=_may_pass
            )
        except KafkaException as failure:
            if self._files != self._params.state_of_files():
                self.close()  # a new client reads the certificates that are there now
            group = f"group {self._params.group_id}"
            rights = {GROUP: f"{self._needs} on {group}", TOPIC: right_on(self._needs, topics)}
            raise translate(failure.args[0], f"{asking} of {group}", self._params, rights=rights) from failure


def _serve(consumer: Consumer, seconds: float) -> None:
    """Serve the client's events for a while. Nothing is assigned, so no record can come, but what it may not do."""
    said = consumer.poll(seconds)
    error = None if said is None else said.error()
    if error is not None and not is_passing(error):
        raise KafkaException(error)


def _may_pass(error: KafkaError) -> bool:
    # A partition that is not there will not come: what is committed may be of a topic that is gone.
    return error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART and is_passing(error)
