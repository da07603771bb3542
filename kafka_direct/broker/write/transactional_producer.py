"""`TransactionalProducer`: the one producer of a transactional.id, with at most one transaction open."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.failure import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    build_client,
    right_on,
    servers_of,
    translate,
    translate_write,
)
from kafka_direct.checkpointed import public
from kafka_direct.errors import ArgumentTypeError, BrokerUnavailable, ConfigError, Fenced, KafkaDirectError
from kafka_direct.options.callback import holding_errors

from .client_call import GRACE_SECONDS, Hung, abandon, call_within
from .client_health import ClientHealth
from .delivery import Undelivered, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams

ANSWER_SECONDS = 60.0
TIMEOUT_KEY = "transaction.timeout.ms"
DEFAULT_TIMEOUT_MS = 60_000
# The part of a transaction's time in which records may be written; the rest is for the commit.
WRITING_SHARE = 0.8
QUEUE_FULL_SECONDS = 0.5
STATE_TOPIC = "__transaction_state"
# A commit that took no longer, at the first try, and no error of the client: then no request of it is under way still.
# The client repeats by itself what was not answered in socket.timeout.ms, and reports no error of that.
QUICK_SECONDS = 5.0
SOCKET_KEY = "socket.timeout.ms"
DEFAULT_SOCKET_MS = 60_000
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
_FAILED_BEFORE = frozenset({KafkaError._STATE, KafkaError._FATAL})  # noqa: SLF001
# What becomes of the records of a transaction that has failed: not why it has.
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001


@public("kafka_direct.sinks")
class KafkaRecord(NamedTuple):
    """A record to write; `timestamp` in milliseconds since the epoch. Without a partition the key decides."""

    value: str | bytes | None
    key: str | bytes | None = None
    topic: str | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: list[tuple[str, bytes | None]] | None = None


Noted: TypeAlias = tuple["TopicPartition", int, str]  # an offset to commit, with its metadata


class TransactionalProducer:
    """A producer that has fenced every older one of its transactional.id, `writer`."""

    def __init__(self, params: ClientParams, writer: str) -> None:
        self._servers = servers_of(params)
        self._params = params
        self._writer = writer
        self._begun = self._write_until = 0.0
        config = params.for_transactions(writer)
        self._timeout_ms = int(str(config.get(TIMEOUT_KEY, DEFAULT_TIMEOUT_MS)))
        self._undelivered = Undelivered()
        self._written: set[str] = set()  # the topics of this transaction's records
        own: Any = config.get("error_cb")
        self._health = ClientHealth(own)
        self._quick_seconds = min(QUICK_SECONDS, int(str(config.get(SOCKET_KEY, DEFAULT_SOCKET_MS))) / 2000)
        self._was_quick = True  # a new one's first request makes an epoch of its own
        # The client reports failures only. The commit fails if a record was not delivered, and the report says why.
        config |= {"delivery.report.only.error": True, "error_cb": self._health}
        config |= {"log.connection.close": True}  # else a lost connection is no error to report
        # A client that has lost its brokers may begin anew with the bootstrap servers, and then sending offsets hangs
        # (librdkafka #5511). A producer lives for a short time, and need not.
        config.setdefault("metadata.recovery.strategy", "none")
        config.setdefault("reconnect.backoff.ms", 10)
        self._client: Any = build_client(Producer, config, on_delivery=self._undelivered)
        self._is_hung = False
        self._run("taking over", self._take_over, ANSWER_SECONDS)

    def _take_over(self, seconds: float) -> None:
        # A new client drops its first connection when it learns whose it is, and asks for the coordinator again half a
        # second later. Two questions before see to it that it has a connection to stay: 15 ms instead of 500.
        for _ in range(2):
            self._client.list_topics(STATE_TOPIC, timeout=seconds)
        self._client.init_transactions(seconds)

    def begin(self, moved: Iterable[Noted], metadata: Any, group: str) -> None:
        """Begin a transaction with the offsets that it commits for a group, which is also named by its `metadata()`."""
        self._undelivered.error = None
        self._written.clear()
        self._was_quick = False
        self._begun = time.monotonic()
        self._write_until = self._begun + WRITING_SHARE * self._timeout_ms / 1000
        self._run("beginning", lambda _: self._client.begin_transaction(), ANSWER_SECONDS)
        self.note(moved, metadata, group)

    def note(self, moved: Iterable[Noted], metadata: Any, group: str) -> None:
        """Send offsets that the transaction commits, in the place of what it has sent of the same partitions."""
        offsets = [ClientPartition(p.topic, p.partition, offset, text) for p, offset, text in moved]
        rights = {GROUP: f"READ on group {group}", TOPIC: right_on("READ", {p.topic for p in offsets})}
        send = self._client.send_offsets_to_transaction
        self._run("sending offsets in", lambda seconds: send(offsets, metadata, seconds), ANSWER_SECONDS, rights)

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
        if isinstance(record, dict):  # the keywords of `Producer.produce`, as the data source makes them of rows
            return self._pass(record)
        is_pair = isinstance(record, tuple) and len(record) == 2
        if not is_pair and not isinstance(record, KafkaRecord):
            raise ArgumentTypeError(
                f"a record to write is a (key, value) or a KafkaRecord; this is a {type(record).__name__}."
            )
        parts = {"key": record[0], "value": record[1]} if is_pair else record._asdict()
        return self._pass({"topic": topic} | {name: value for name, value in parts.items() if value is not None})

    def _pass(self, given: dict[str, Any]) -> None:
        self._written.add(given["topic"])
        try:
            produce(self._client, **given)
        except KafkaException as failure:
            raise self._translated(self._cause(failure.args[0]), "writing", topic=given["topic"]) from failure
        except TypeError as cause:
            raise ArgumentTypeError(
                f"keys and values to write are text, bytes or None; in a record to {given['topic']}: {cause}."
            ) from cause

    def _cause(self, error: KafkaError) -> KafkaError:
        """Why a transaction takes no records any more. Asked to commit, the client says what has failed it before."""
        if error.code() not in _FAILED_BEFORE:
            return error
        try:
            call_within(QUICK_SECONDS, lambda: self._client.commit_transaction(QUICK_SECONDS))
        except KafkaException as failure:
            cause: KafkaError = failure.args[0]
            return cause
        except Hung:
            self._is_hung = True
            abandon(self._client)
        return error

    def commit(self) -> None:
        clock = time.monotonic
        if clock() > self._write_until:
            raise self._too_long("its records")
        asked, left = clock(), self._begun + self._timeout_ms / 1000 - clock()
        tries = self._run("committing", self._client.commit_transaction, left)
        self._was_quick = tries == 1 and clock() - asked < self._quick_seconds

    def abort(self) -> None:
        """Abort what is open. If that fails, the next producer of this id does it."""
        if not self._is_hung:
            with suppress(KafkaDirectError):
                self._run("aborting", self._client.abort_transaction, ANSWER_SECONDS / 6)

    def may_be_kept(self) -> bool:
        """Whether nothing that this producer has sent can arrive later.

        Its next transaction has the same epoch. A request to commit that was sent twice, and held up on a connection
        that is gone, would commit a part of it (librdkafka #5423). Only a new producer's epoch shuts it out.
        """
        with holding_errors():
            self._client.poll(0)  # what the client has to report
        return self._was_quick and self._health.is_good

    def _run(self, doing: str, call: Callable[[float], object], seconds: float, rights: Mapping[int, str] = {}) -> int:
        """Make a call with the time that is left to it, again if it may be; the result is how many tries it took."""
        deadline, tries = Deadline(seconds), 1
        while True:
            left = deadline.left()
            try:
                call_within(left, lambda left=left: call(left))  # type: ignore[misc]
            except KafkaException as failure:
                error = failure.args[0]
                if error.retriable() and not error.txn_requires_abort() and not deadline.is_over():
                    tries += 1
                    continue
                raise self._translated(error, f"{doing} the transaction of {self._writer}", rights) from failure
            except Hung:
                raise self._hung(doing, seconds) from None
            return tries

    def _hung(self, doing: str, seconds: float) -> BrokerUnavailable:
        self._is_hung = True
        abandon(self._client)
        seen = "nothing of it is visible" if doing != "committing" else "whether it is committed shows the next try"
        return BrokerUnavailable(
            f"{doing} the transaction of {self._writer} has not returned from the client in {seconds:.0f} s and "
            f"{GRACE_SECONDS:.0f} more, with Kafka at {self._servers}; {seen}: Spark runs a failed task again, and a "
            "failed batch runs again when the job is started again.",
            servers=self._servers,
        )

    def _translated(
        self, error: KafkaError, doing: str, rights: Mapping[int, str] = {}, topic: str = ""
    ) -> KafkaDirectError:
        if error.code() in _FENCED:
            return Fenced(
                f"{self._writer} has a newer producer ({error.str()}): another copy of this task, or another driver, "
                "has taken over; nothing of this one is visible.",
                writer=self._writer,
            )
        writing = f"WRITE on transactional-id {self._writer}"
        rights = {TRANSACTIONAL_ID: writing, CLUSTER: "IDEMPOTENT_WRITE on the cluster", **rights}
        if self._written:  # only after the topics of the offsets were allowed
            rights[TOPIC] = right_on("WRITE", self._written)
        if self._undelivered.error is not None and self._undelivered.error.code() not in _PURGED:
            error, topic = self._undelivered.error, self._undelivered.topic
        if topic:
            return translate_write(error, topic, self._params, rights=rights)
        return translate(error, doing, self._params, rights=rights)

    def _too_long(self, records: str) -> ConfigError:
        return ConfigError(
            f"{records} of {self._writer} took {time.monotonic() - self._begun:.0f} s, and the brokers abort a "
            f"transaction after {self._timeout_ms / 1000:g} s; raise {TIMEOUT_KEY} in the sink's kafkaParams (up to "
            "the brokers' transaction.max.timeout.ms), or make batches smaller with maxRatePerPartition."
        )
