"""Reading one offset range in a worker: exactly its records, with a consumer that is kept for the next range.

A range ends when the consumer's position reaches its end, and not after a number of records. Control records, aborted
transactions and compaction leave gaps, which may be at the end of a range or may be all of it.
"""

from __future__ import annotations

import logging
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.deadline import Deadline, look_again
from kafka_direct.broker.diagnosis import diagnose
from kafka_direct.broker.failure import (
    GROUP,
    TOPIC,
    build_client,
    client_log,
    is_passing,
    servers_of,
    translate,
    unreachable,
)
from kafka_direct.broker.idle import IdleClients
from kafka_direct.errors import BrokerUnavailable, KafkaDirectError
from kafka_direct.offsets import Loss, LossCause, LossPolicy
from kafka_direct.offsets.model.loss import STREAM_SETTING
from kafka_direct.options.callback import holding_errors

from .chunk import Chunk
from .fetch_size import FetchSize, KnownTopics, TopicStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams
    from kafka_direct.options.client_config import FilesState

    from .chunk import ChunkError
    from .worker_consumer import WorkerConsumer

    Build = Callable[[Mapping[str, Any]], WorkerConsumer["ChunkT"]]

ChunkT = TypeVar("ChunkT", bound=Chunk)

POLL_SECONDS = 1.0  # the longest wait for records before the deadlines are looked at
# A consumer that has fetched nothing for so long is replaced, and the next one after three times as long: the record
# that it waits for may take its time.
REPLACE_SECONDS = 10.0
REPLACE_GROWTH = 3
ABSENCE_SECONDS = 1.5  # a broker that has just started does not know all topics yet
REQUEST_SECONDS = 5.0  # a broker that is there answers sooner
DEFAULT_POLL_SECONDS = 120.0  # spark.network.timeout, as Spark's own consumers have it

log = logging.getLogger("kafka_direct")

_PLANNED = "The range was planned when they were there: raise the topic's retention or read faster."

_GONE = (
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001  librdkafka's own codes are underscored by name
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


_RAISED = LossPolicy(fail_on_data_loss=True, setting=STREAM_SETTING, reader="a worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """How a worker reads: how long it waits for a record, and what it does about a loss. The defaults are DStreams'.

    `poll_setting` is what the user calls the setting `poll_seconds`.
    """

    poll_seconds: float = DEFAULT_POLL_SECONDS
    poll_setting: str = "spark.streaming.kafka.consumer.poll.ms"
    losses: LossPolicy = _RAISED


# By configuration and kind.
idle_consumers: IdleClients[tuple[ClientParams, FilesState, FetchSize, Build[Any]], WorkerConsumer[Any]] = IdleClients(
    lambda consumer: consumer.close()
)
_topics = KnownTopics()


def read_chunks(
    build: Build[ChunkT], params: ClientParams, range_: OffsetRange, settings: ReadSettings | None = None
) -> Iterator[ChunkT]:
    """The records of a range that the isolation level shows, in order, in chunks of the consumers that `build` makes.

    Each chunk is closed when the next one is asked for.

    Raises:
        OffsetsLost: a part of the range is not there any more, and losses are not accepted.
        BrokerUnavailable: nothing came for `poll_seconds`.
    """
    if range_.count() == 0:
        return
    fetch_size = _topics.get(range_.topic).fetch_size(range_.count())
    with _BorrowedConsumer(build, params, fetch_size) as borrowed:
        yield from _RangeRead(borrowed, range_, settings or ReadSettings()).chunks()


def check_reader(params: ClientParams) -> None:
    """Refuse parameters that a worker's consumer would not take, before a worker has to."""
    build_client(Consumer, params.for_executor()).close()


class _RangeRead(Generic[ChunkT]):
    """One range being read by one consumer; `position` is the next offset to read."""

    def __init__(self, borrowed: _BorrowedConsumer[ChunkT], range_: OffsetRange, settings: ReadSettings) -> None:
        self.borrowed = borrowed
        self.servers = servers_of(borrowed.params)
        self.range = range_
        self.position = range_.fromOffset
        self.settings = settings

    def chunks(self) -> Iterator[ChunkT]:
        until, poll_seconds = self.range.untilOffset, self.settings.poll_seconds
        self._assign()
        deadline, replacement, patience = Deadline(poll_seconds), Deadline(REPLACE_SECONDS), REPLACE_SECONDS
        while self.position < until:
            before = self.position
            consumer = self.borrowed.consumer
            count, seconds = min(consumer.max_records, until - before), min(POLL_SECONDS, deadline.left())
            with closing(consumer.poll(count, seconds)) as chunk:
                self._advance(chunk)
                if self.position >= until:
                    self._stop_fetching(chunk)
                if len(chunk) > 0:
                    yield chunk
            if self.position > before:
                # Anew after the yield: the time in between is the caller's.
                deadline, replacement, patience = Deadline(poll_seconds), Deadline(REPLACE_SECONDS), REPLACE_SECONDS
            elif deadline.is_over():
                self._give_up()
            elif replacement.is_over():
                self._replace_consumer()
                patience *= REPLACE_GROWTH
                replacement = Deadline(patience)

    def _assign(self) -> None:
        self.borrowed.consumer.assign(self._partition())

    def _stop_fetching(self, last: Chunk) -> None:
        """Before the caller has the last records: librdkafka would go on behind the range meanwhile."""
        if len(last) > 0:
            _, high = self.borrowed.consumer.client.get_watermark_offsets(self._partition(), cached=True)
            statistics = TopicStatistics(last.weight() / len(last), high - self.range.untilOffset)
            _topics.put(self.range.topic, statistics)
        self.borrowed.consumer.unassign()

    def _partition(self) -> ClientPartition:
        return ClientPartition(self.range.topic, self.range.partition, self.position)

    def _advance(self, chunk: Chunk) -> None:
        """Move the position behind the chunk's records, cut off those behind the range, and handle the errors."""
        errors = chunk.take_errors()
        if len(chunk) > 0:
            self.position = max(self.position, chunk.last_offset() + 1)
            chunk.cut(self.range.untilOffset)
        # After the records, which came before the errors: they are neither fetched again nor lost.
        for error in errors:
            if self.position < self.range.untilOffset:
                self._handle(error)

    def _handle(self, found: ChunkError) -> None:
        code = found.error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            # At the end of the log, everything that is invisible before it has been passed too.
            self.position = max(self.position, found.offset)
        elif code in _GONE:
            self._handle_loss()
        elif code == GROUP:
            pass  # the client looks for its group by itself; a range is read without one
        elif not is_passing(found.error):
            self._raise_denied(found.error)
            raise translate(found.error, f"reading {self.range}", self.borrowed.params)

    def _raise_denied(self, error: KafkaError) -> None:
        if error.code() == TOPIC:
            rights = {TOPIC: f"READ on topic {self.range.topic}"}
            raise translate(error, f"reading {self.range}", self.borrowed.params, rights=rights)

    def _replace_consumer(self) -> None:
        """Nothing came for a while: the partition is gone, or its broker is away, or the consumer hangs.

        A consumer has been seen to hang for minutes while the broker answered all others (docs/decisions/0007).
        """
        try:
            exists = self._exists()
        except KafkaException as failure:
            self._raise_denied(failure.args[0])
            found = diagnose(self.borrowed.params, client_log.complaint(self.servers))
            if found is not None and found.is_final:
                raise unreachable(failure.args[0].str(), f"reading {self.range}", self.borrowed.params) from failure
            return  # the broker is away, and may come back
        if not exists:
            self._handle_loss()
            return
        log.warning("a consumer has fetched nothing of %s at offset %d; a new one goes on", self.range, self.position)
        self.borrowed.replace()
        self._assign()

    def _give_up(self) -> None:
        """Nothing came for too long: the log may be shorter than it was, else the broker is away."""
        try:
            _, latest = self._watermarks()
            is_lost, why = latest is None or latest < self.range.untilOffset, ""
        except KafkaDirectError as error:  # nobody knows
            is_lost, why = False, f" ({str(error).rstrip('.')})"
        if not is_lost:
            raise BrokerUnavailable(
                f"no record of {self.range} came from Kafka at {self.servers} for {self.settings.poll_seconds:g} s, "
                f"standing at offset {self.position}{why}; check the brokers, or raise {self.settings.poll_setting}.",
                servers=self.servers,
            )
        self._handle_loss()

    def _handle_loss(self) -> None:
        """Records of the range seem gone: raise or accept that. If they are there after all, fetch them again."""
        earliest, latest = self._watermarks()
        if earliest is not None and latest is not None and earliest <= self.position < self.range.untilOffset <= latest:
            self._assign()
            return
        is_aged_out = earliest is not None and self.position < earliest
        resumed = min(earliest, self.range.untilOffset) if earliest is not None and is_aged_out else None
        cause = LossCause.AGED_OUT if is_aged_out else LossCause.DELETED if earliest is None else LossCause.TRUNCATED
        found = {"earliest": earliest, "latest": latest, "resumed": resumed}
        loss = Loss(topic_partition=self.range.topicPartition(), cause=cause, wanted=self.position, **found)
        self.settings.losses.accept([loss], _PLANNED)
        self.position = self.range.untilOffset if resumed is None else resumed
        self._assign()

    def _watermarks(self) -> tuple[int | None, int | None]:
        """The first offset and the end of the partition as they are now; None if Kafka says that there is none."""
        try:
            if not self._exists():
                return None, None
            client = self.borrowed.consumer.client
            earliest, latest = client.get_watermark_offsets(self._partition(), timeout=REQUEST_SECONDS)
        except KafkaException as failure:
            self._raise_denied(failure.args[0])
            raise translate(failure.args[0], f"looking for {self.range}", self.borrowed.params) from failure
        return earliest, latest

    def _exists(self) -> bool:
        """Whether the brokers have the partition. What the client remembers of it does not count."""
        topic, client = self.range.topic, self.borrowed.consumer.client

        def is_listed() -> bool:
            found = client.list_topics(topic, timeout=REQUEST_SECONDS).topics[topic]
            if found.error is not None and found.error.code() == TOPIC:  # it is there, and this user may not see it
                raise KafkaException(found.error)
            return self.range.partition in found.partitions

        return look_again(is_listed, Deadline(ABSENCE_SECONDS), is_enough=bool)


class _BorrowedConsumer(Generic[ChunkT]):
    """An idle consumer of this process, or a new one, which one reading has for itself and may replace.

    Two ranges that are read in turns have one each.
    """

    def __init__(self, build: Build[ChunkT], params: ClientParams, fetch_size: FetchSize) -> None:
        self.params = params
        self._build = build
        self._fetch_size = fetch_size
        self._key = (params, params.state_of_files(), fetch_size, build)
        kept: WorkerConsumer[ChunkT] | None = idle_consumers.take(self._key)
        self.consumer = kept or self._new()

    def replace(self) -> None:
        old, self.consumer = self.consumer, self._new()  # which may fail; a closed one must not be left behind
        old.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, (KafkaException, BrokerUnavailable)):
            self.consumer.close()  # it may be the consumer that is broken
            return
        self.consumer.unassign()
        # What is wrong with the other consumers does not matter to this reading.
        with suppress(Exception), holding_errors():
            idle_consumers.keep(self._key, self.consumer)
            for _, idle in idle_consumers.kept():
                idle.client.poll(0)  # delivers its events: statistics would pile up

    def _new(self) -> WorkerConsumer[ChunkT]:
        return self._build(self.params.for_executor(self._fetch_size.settings()))
