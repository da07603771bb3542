"""`TransactionalProducer`: the one producer of a transactional.id, with at most one transaction open."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.failure import build_client, servers_of, translate, translate_write
from kafka_direct.checkpointed import public
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced, KafkaDirectError

from .delivery import Undelivered, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

ANSWER_SECONDS = 60.0
TIMEOUT_KEY = "transaction.timeout.ms"
DEFAULT_TIMEOUT_MS = 60_000
# The part of a transaction's time in which records may be written; the rest is for the commit.
WRITING_SHARE = 0.8
QUEUE_FULL_SECONDS = 0.5
POLL_EVERY = 1000  # records

_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  librdkafka's own codes are underscored by name
        KafkaError._FATAL,  # noqa: SLF001  what a fenced producer says from then on
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)


@public("kafka_direct.sinks")
class KafkaRecord(NamedTuple):
    """A record to write; `timestamp` in milliseconds since the epoch. Without a partition the key decides."""

    value: str | bytes | None
    key: str | bytes | None = None
    topic: str | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: list[tuple[str, bytes | None]] | None = None


class TransactionalProducer:
    """A producer that has fenced every older one of its transactional.id, `writer`."""

    def __init__(self, params: ClientParams, writer: str) -> None:
        self._servers = servers_of(params)
        self._writer = writer
        self._begun = self._write_until = 0.0
        # The client reports failures only. The commit fails if a record was not delivered, and the report says why.
        config = params.for_transactions(writer) | {"delivery.report.only.error": True}
        self._timeout_ms = int(str(config.get(TIMEOUT_KEY, DEFAULT_TIMEOUT_MS)))
        self._undelivered = Undelivered()
        self._client: Any = build_client(Producer, config, on_delivery=self._undelivered)
        deadline = Deadline(ANSWER_SECONDS)
        self._run("taking over", lambda: self._client.init_transactions(deadline.left()), deadline)

    def begin(self, moved: Iterable[tuple[TopicPartition, int, str]], group: Any) -> None:
        """Begin a transaction with the offsets that it commits, each with its metadata. `group` is `metadata()`'s."""
        offsets = [ClientPartition(p.topic, p.partition, offset, text) for p, offset, text in moved]
        self._undelivered.error = None
        self._begun = time.monotonic()
        self._write_until = self._begun + WRITING_SHARE * self._timeout_ms / 1000
        left = Deadline(ANSWER_SECONDS)
        self._client.begin_transaction()
        self._run("beginning", lambda: self._client.send_offsets_to_transaction(offsets, group, left.left()), left)

    def write(self, topic: str, records: Iterable[Any]) -> None:
        clock, ends = time.monotonic, self._write_until
        for number, record in enumerate(records):
            if clock() > ends:
                raise self._too_long(f"{number} records")
            try:
                self._produce(record, topic)
            except BufferError:
                self._produce_late(record, topic, number)
            if number % POLL_EVERY == 0:
                self._client.poll(0)

    def _produce_late(self, record: Any, topic: str, number: int) -> None:
        """Write a record for which the queue has no room yet."""
        while time.monotonic() < self._write_until:
            self._client.poll(QUEUE_FULL_SECONDS)
            with suppress(BufferError):
                return self._produce(record, topic)
        raise self._too_long(f"{number} records")

    def _produce(self, record: Any, topic: str) -> None:
        is_pair = isinstance(record, tuple) and len(record) == 2
        if not is_pair and not isinstance(record, KafkaRecord):
            raise ArgumentTypeError(
                f"a record to write is a (key, value) or a KafkaRecord; this is a {type(record).__name__}."
            )
        parts = {"key": record[0], "value": record[1]} if is_pair else record._asdict()
        given = {"topic": topic} | {name: value for name, value in parts.items() if value is not None}
        try:
            produce(self._client, **given)
        except KafkaException as failure:
            at = given["topic"]
            raise self._translated(failure.args[0], f"writing to topic {at}", at) from failure
        except TypeError as cause:
            raise ArgumentTypeError(
                f"keys and values to write are text, bytes or None; in a record to {topic}: {cause}."
            ) from cause

    def commit(self) -> None:
        if time.monotonic() > self._write_until:
            raise self._too_long("its records")
        left = Deadline(self._begun + self._timeout_ms / 1000 - time.monotonic())
        self._run("committing", lambda: self._client.commit_transaction(left.left()), left)

    def abort(self) -> None:
        """Abort what is open. If that fails, the next producer of this id does it."""
        deadline = Deadline(ANSWER_SECONDS / 6)
        with suppress(KafkaDirectError):
            self._run("aborting", lambda: self._client.abort_transaction(deadline.left()), deadline)

    def _run(self, doing: str, call: Callable[[], object], deadline: Deadline) -> None:
        while True:
            try:
                call()
            except KafkaException as failure:
                error = failure.args[0]
                if error.retriable() and not error.txn_requires_abort() and not deadline.is_over():
                    continue
                raise self._translated(error, f"{doing} the transaction of {self._writer}") from failure
            return

    def _translated(self, error: KafkaError, doing: str, topic: str = "") -> KafkaDirectError:
        if error.code() in _FENCED:
            return Fenced(
                f"{self._writer} has a newer producer ({error.str()}): another copy of this task, or another driver, "
                "has taken over; nothing of this one is visible.",
                writer=self._writer,
            )
        if self._undelivered.error is not None:
            error, topic = self._undelivered.error, self._undelivered.topic
        return translate_write(error, topic, self._servers) if topic else translate(error, doing, self._servers)

    def _too_long(self, records: str) -> ConfigError:
        return ConfigError(
            f"{records} of {self._writer} took {time.monotonic() - self._begun:.0f} s, and the brokers abort a "
            f"transaction after {self._timeout_ms / 1000:g} s; raise {TIMEOUT_KEY} in the sink's kafkaParams (up to "
            "the brokers' transaction.max.timeout.ms), or make batches smaller with maxRatePerPartition."
        )
