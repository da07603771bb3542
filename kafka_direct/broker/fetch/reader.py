"""Reading one offset range in a worker: exactly its records, with a consumer that is kept for the next range.

A range ends when the consumer's position reaches its end, not when a number of records was seen: control records,
aborted transactions and compaction leave gaps, also at the end and also over whole ranges.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.broker.ask.cluster import Cluster
from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.failure import build_client, servers_of, translate
from kafka_direct.broker.idle import IdleClients
from kafka_direct.errors import BrokerUnavailable, KafkaDirectError
from kafka_direct.offsets import Loss, LossCause, offsets_lost
from kafka_direct.options.callback import holding_errors

from .appetite import UNKNOWN, Appetite, Taste
from .chunk import Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams

    from .chunk import Failure
    from .worker_consumer import WorkerConsumer

    Build = Callable[[Mapping[str, Any]], WorkerConsumer["ChunkT"]]

ChunkT = TypeVar("ChunkT", bound=Chunk)

# A consumer that has had nothing for so long is replaced, and the next one after three times as long: what it waits for
# may be a record that takes its time.
WAKE_SECONDS = 10.0
WAKE_GROWTH = 3
# A partition that is not there is looked for so often before that is believed.
ABSENCE_ATTEMPTS = 4
ABSENCE_PAUSE_SECONDS = 0.5
COMPLAINT_SECONDS = 5.0
DEFAULT_POLL_SECONDS = 120.0  # spark.network.timeout, as Spark's own consumers have it

log = logging.getLogger("kafka_direct")

_REMEDY = (
    "The range was planned when they were there: raise the topic's retention or read faster; to continue without them, "
    "set {skip_lost} to false and restart."
)


class SettingNames(NamedTuple):
    """What those who read call the settings that messages point to."""

    skip_lost: str = "spark.streaming.kafka.failOnDataLoss"
    poll_seconds: str = "spark.streaming.kafka.consumer.poll.ms"


OF_DSTREAMS = SettingNames()

_GONE = (
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001  librdkafka's own codes are underscored by name
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)

# By configuration and kind.
_idle: IdleClients[tuple[ClientParams, Appetite, Build[Any]], WorkerConsumer[Any]] = IdleClients()
_tastes: dict[str, Taste] = {}  # by topic


def read_chunks(  # noqa: PLR0913  what is read, and how
    build: Build[ChunkT],
    params: ClientParams,
    range_: OffsetRange,
    *,
    poll_seconds: float = DEFAULT_POLL_SECONDS,
    skip_lost: bool = False,
    names: SettingNames = OF_DSTREAMS,
) -> Iterator[ChunkT]:
    """The records of a range that the isolation level shows, in order, in chunks of the consumers that `build` makes.

    Each chunk is closed when the next one is asked for. With `skip_lost` what is gone is logged and left out, instead
    of raised.

    Raises:
        OffsetsLost: a part of the range is not there any more.
        BrokerUnavailable: nothing came for `poll_seconds`.
    """
    if range_.count() == 0:
        return
    appetite = _tastes.get(range_.topic, UNKNOWN).appetite(range_.count())
    with _lend(build, params, appetite) as lent:
        yield from _Reading(lent, range_, poll_seconds=poll_seconds, skip_lost=skip_lost, names=names).chunks()


def check_reader(params: ClientParams) -> None:
    """Refuse parameters that a worker's consumer would not take, before a worker has to."""
    build_client(Consumer, params.for_executor()).close()


class _Reading(Generic[ChunkT]):
    """One range being read by one consumer; `position` is the next offset to see."""

    def __init__(
        self,
        lent: _Lent[ChunkT],
        range_: OffsetRange,
        *,
        poll_seconds: float,
        skip_lost: bool,
        names: SettingNames,
    ) -> None:
        self.lent = lent
        self.servers = servers_of(lent.params)
        self.range = range_
        self.position = range_.fromOffset
        self.poll_seconds = poll_seconds
        self.skip_lost = skip_lost
        self.names = names

    def chunks(self) -> Iterator[ChunkT]:
        until = self.range.untilOffset
        self._assign()
        deadline, wake, patience = Deadline(self.poll_seconds), Deadline(WAKE_SECONDS), WAKE_SECONDS
        while self.position < until:
            before = self.position
            consumer = self.lent.consumer
            with closing(consumer.poll(min(consumer.most, until - before), min(1.0, deadline.left()))) as chunk:
                self._sort_out(chunk)
                if self.position >= until:
                    self._leave(chunk)
                if len(chunk) > 0:
                    yield chunk
            if self.position > before:
                # Anew after the yield: the time in between is the caller's.
                deadline, wake, patience = Deadline(self.poll_seconds), Deadline(WAKE_SECONDS), WAKE_SECONDS
            elif deadline.is_over():
                self._stalled()
            elif wake.is_over():
                self._wake()
                patience *= WAKE_GROWTH
                wake = Deadline(patience)

    def _assign(self) -> None:
        self.lent.consumer.assign(self._partition())

    def _leave(self, last: Chunk) -> None:
        """Stop fetching, which would go on behind the range while the caller has the last records."""
        if len(last) > 0:
            _, high = self.lent.consumer.client.get_watermark_offsets(self._partition(), cached=True)
            _tastes[self.range.topic] = Taste(last.weight() / len(last), high - self.range.untilOffset)
        self.lent.consumer.unassign()

    def _partition(self) -> ClientPartition:
        return ClientPartition(self.range.topic, self.range.partition, self.position)

    def _sort_out(self, chunk: Chunk) -> None:
        """Leave the records of the range in the chunk, move the position after them, and see to the errors."""
        failures = chunk.take_failures()
        if len(chunk) > 0:
            self.position = max(self.position, chunk.last_offset() + 1)
            chunk.cut(self.range.untilOffset)
        # After the records, which came before the errors: what is there is not asked for again, and is not lost.
        for failure in failures:
            if self.position < self.range.untilOffset:
                self._face(failure)

    def _face(self, failure: Failure) -> None:
        code = failure.error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            # The end of the log is also the end of what cannot be seen before it.
            self.position = max(self.position, failure.offset)
        elif code in _GONE:
            self._lose()
        elif not (translated := translate(failure.error, f"reading {self.range}", self.servers)).retriable:
            raise translated

    def _wake(self) -> None:
        """Nothing came for a while: the partition is gone, or its broker is away, or else it is the consumer.

        One has been seen to stand still for minutes beside a broker that answered everybody else (docs/decisions/0007).
        """
        try:
            exists = self._exists()
        except KafkaException:
            return  # the broker is away, and may come back
        if not exists:
            self._lose()
            return
        log.warning("a consumer has fetched nothing of %s at offset %d; a new one goes on", self.range, self.position)
        self.lent.renew()
        self._assign()

    def _stalled(self) -> None:
        """Nothing came for too long: the log may be shorter than it was, else the broker is away."""
        try:
            _, latest = self._watermarks()
            is_lost, complaint = latest is None or latest < self.range.untilOffset, ""
        except KafkaDirectError:  # nobody knows
            is_lost = False
            complaint = Cluster(self.lent.params).complaint(self.range.topic, seconds=COMPLAINT_SECONDS)
        if not is_lost:
            why = f" ({complaint})" if complaint else ""
            raise BrokerUnavailable(
                f"no record of {self.range} came from Kafka at {self.servers} for {self.poll_seconds:g} s, standing at "
                f"offset {self.position}{why}; check the brokers, or raise {self.names.poll_seconds}.",
                servers=self.servers,
            )
        self._lose()

    def _lose(self) -> None:
        """Records of the range seem gone: raise that, or go on after them; what is there after all is fetched again."""
        earliest, latest = self._watermarks()
        if earliest is not None and latest is not None and earliest <= self.position < self.range.untilOffset <= latest:
            self._assign()
            return
        is_aged_out = earliest is not None and self.position < earliest
        resumed = min(earliest, self.range.untilOffset) if earliest is not None and is_aged_out else None
        cause = LossCause.AGED_OUT if is_aged_out else LossCause.DELETED if earliest is None else LossCause.TRUNCATED
        loss = Loss(
            topic_partition=self.range.topicPartition(),
            cause=cause,
            wanted=self.position,
            earliest=earliest,
            latest=latest,
            resumed=resumed,
        )
        if not self.skip_lost:
            raise offsets_lost([loss], _REMEDY.format(skip_lost=self.names.skip_lost))
        log.warning("going on after a loss in %s: %s", self.range, loss)
        self.position = self.range.untilOffset if resumed is None else resumed
        self._assign()

    def _watermarks(self) -> tuple[int | None, int | None]:
        """The first offset and the end of the partition as they are now; None if Kafka says that there is none."""
        try:
            if not self._exists():
                return None, None
            earliest, latest = self.lent.consumer.client.get_watermark_offsets(self._partition(), timeout=5)
        except KafkaException as failure:
            raise translate(failure.args[0], f"looking for {self.range}", self.servers) from failure
        return earliest, latest

    def _exists(self) -> bool:
        """Whether the brokers have the partition. What the client remembers of it does not count."""
        for attempt in range(ABSENCE_ATTEMPTS):
            if attempt > 0:
                time.sleep(ABSENCE_PAUSE_SECONDS)  # a broker that has just started does not know all topics yet
            topic = self.lent.consumer.client.list_topics(self.range.topic, timeout=5).topics[self.range.topic]
            if self.range.partition in topic.partitions:
                return True
        return False


class _Lent(Generic[ChunkT]):
    """A consumer on loan to one reading, which may change it for a new one."""

    def __init__(self, build: Build[ChunkT], params: ClientParams, appetite: Appetite) -> None:
        self.params = params
        self._build = build
        self._appetite = appetite
        self._key = (params, appetite, build)
        kept: WorkerConsumer[ChunkT] | None = _idle.take(self._key)
        self.consumer = kept or self._new()

    def renew(self) -> None:
        old, self.consumer = self.consumer, self._new()  # which may fail; a closed one must not be left behind
        old.close()

    def give_back(self) -> None:
        self.consumer.unassign()
        # Whatever is wrong with the others is nothing to this reading.
        with suppress(Exception), holding_errors():
            for dropped in _idle.keep(self._key, self.consumer):
                dropped.close()
            for _, idle in _idle.kept():
                idle.client.poll(0)  # has it say what it has to: statistics would pile up

    def _new(self) -> WorkerConsumer[ChunkT]:
        return self._build(self.params.for_executor(self._appetite.settings()))


@contextmanager
def _lend(build: Build[ChunkT], params: ClientParams, appetite: Appetite) -> Iterator[_Lent[ChunkT]]:
    """An idle consumer of this process, or a new one; two ranges read in turns get one each."""
    lent = _Lent(build, params, appetite)
    try:
        yield lent
    except (KafkaException, BrokerUnavailable):
        lent.consumer.close()  # whatever is wrong with it stays behind
        raise
    except BaseException:
        lent.give_back()
        raise
    else:
        lent.give_back()
