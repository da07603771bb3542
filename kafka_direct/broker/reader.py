"""Reading one offset range in a worker: exactly its records, with a consumer that is kept for the next range.

A range ends when the consumer's position reaches its end, not when a number of records was seen: control records,
aborted transactions and compaction leave gaps, also at the end and also over whole ranges.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct.errors import BrokerUnavailable, KafkaDirectError
from kafka_direct.offsets import Loss, LossCause, offsets_lost

from .appetite import UNKNOWN, Appetite, Taste
from .deadline import Deadline
from .failure import build_client, servers_of, translate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_direct.offsets import OffsetRange
    from kafka_direct.options import ClientParams

# Records taken from librdkafka at once. Fewer cost more calls, more cost more memory; flat between 500 and 2000.
CHUNK = 1000
# A consumer that has had nothing for so long is replaced, and the next one after three times as long: what it waits for
# may be a record that takes its time.
WAKE_SECONDS = 10.0
WAKE_GROWTH = 3
# A partition that is not there is looked for so often before that is believed.
ABSENCE_ATTEMPTS = 4
ABSENCE_PAUSE_SECONDS = 0.5
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

# Idle consumers of this process, one per configuration.
_idle: dict[tuple[int, ClientParams, Appetite], Consumer] = {}

_tastes: dict[str, Taste] = {}  # by topic


def read_range(
    params: ClientParams,
    range_: OffsetRange,
    *,
    poll_seconds: float = DEFAULT_POLL_SECONDS,
    skip_lost: bool = False,
    names: SettingNames = OF_DSTREAMS,
) -> Iterator[list[Message]]:
    """The records of a range that the isolation level shows, in order, in chunks.

    With `skip_lost` what is gone is logged and left out, instead of raised.

    Raises:
        OffsetsLost: a part of the range is not there any more.
        BrokerUnavailable: nothing came for `poll_seconds`.
    """
    if range_.count() == 0:
        return
    appetite = _tastes.get(range_.topic, UNKNOWN).appetite(range_.count())
    with _lend(params, appetite) as lent:
        yield from _Reading(lent, range_, skip_lost=skip_lost, names=names).chunks(poll_seconds)


def check_reader(params: ClientParams) -> None:
    """Refuse parameters that a worker's consumer would not take, before a worker has to."""
    build_client(Consumer, params.for_executor()).close()


class _Reading:
    """One range being read by one consumer; `position` is the next offset to see."""

    def __init__(self, lent: _Lent, range_: OffsetRange, *, skip_lost: bool, names: SettingNames) -> None:
        self.lent = lent
        self.servers = servers_of(lent.params)
        self.range = range_
        self.position = range_.fromOffset
        self.skip_lost = skip_lost
        self.names = names

    def chunks(self, poll_seconds: float) -> Iterator[list[Message]]:
        until = self.range.untilOffset
        self._assign()
        deadline, wake, patience = Deadline(poll_seconds), Deadline(WAKE_SECONDS), WAKE_SECONDS
        while self.position < until:
            before = self.position
            polled = _consume(self.lent.consumer, min(CHUNK, until - before), min(1.0, deadline.left()))
            messages = self._sort_out(polled)
            if self.position >= until:
                self._leave(messages)
            if messages:
                yield messages
            if self.position > before:
                # Anew after the yield: the time in between is the caller's.
                deadline, wake, patience = Deadline(poll_seconds), Deadline(WAKE_SECONDS), WAKE_SECONDS
            elif deadline.is_over():
                self._stalled(poll_seconds)
            elif wake.is_over():
                self._wake()
                patience *= WAKE_GROWTH
                wake = Deadline(patience)

    def _assign(self) -> None:
        self.lent.consumer.assign([self._partition()])

    def _leave(self, last: list[Message]) -> None:
        """Stop fetching, which would go on behind the range while the caller has the last records."""
        if last:
            _, high = self.lent.consumer.get_watermark_offsets(self._partition(), cached=True)
            # Values only: a key beside them matters little for the size of a fetch.
            _tastes[self.range.topic] = Taste(sum(map(len, last)) / len(last), high - self.range.untilOffset)
        self.lent.consumer.unassign()

    def _partition(self) -> ClientPartition:
        return ClientPartition(self.range.topic, self.range.partition, self.position)

    def _sort_out(self, polled: list[Message]) -> list[Message]:
        """The records of the range among what was polled; moves the position after them."""
        # Errors come as messages, and are rare: one look through C finds that there is none.
        messages = polled if not any(map(Message.error, polled)) else list(self._without_errors(polled))
        if messages:
            self.position = max(self.position, _offset(messages[-1]) + 1)
        while messages and _offset(messages[-1]) >= self.range.untilOffset:
            messages.pop()
        return messages

    def _without_errors(self, polled: list[Message]) -> Iterator[Message]:
        for message in polled:
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                # The end of the log is also the end of what cannot be seen before it.
                self.position = max(self.position, _offset(message))
            elif error.code() in _GONE:
                self._lose()
            elif not (translated := translate(error, f"reading {self.range}", self.servers)).retriable:
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

    def _stalled(self, seconds: float) -> None:
        """Nothing came for too long: the log may be shorter than it was, else the broker is away."""
        try:
            _, latest = self._watermarks()
            is_lost = latest is None or latest < self.range.untilOffset
        except KafkaDirectError:
            is_lost = False  # nobody knows
        if not is_lost:
            raise BrokerUnavailable(
                f"no record of {self.range} came from Kafka at {self.servers} for {seconds:g} s, standing at offset "
                f"{self.position}; check the brokers, or raise {self.names.poll_seconds}.",
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
            earliest, latest = self.lent.consumer.get_watermark_offsets(self._partition(), timeout=5)
        except KafkaException as failure:
            raise translate(failure.args[0], f"looking for {self.range}", self.servers) from failure
        return earliest, latest

    def _exists(self) -> bool:
        """Whether the brokers have the partition. What the client remembers of it does not count."""
        for attempt in range(ABSENCE_ATTEMPTS):
            if attempt > 0:
                time.sleep(ABSENCE_PAUSE_SECONDS)  # a broker that has just started does not know all topics yet
            topic = self.lent.consumer.list_topics(self.range.topic, timeout=5).topics[self.range.topic]
            if self.range.partition in topic.partitions:
                return True
        return False


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "only a message that was never sent has none"
    return offset


def _consume(consumer: Consumer, count: int, seconds: float) -> list[Message]:
    # Thousands of messages made at once set off one collection after the other, which find nothing: half the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        # Asked for all at once, it would wait out its time wherever the range has a gap, as after each transaction.
        first = consumer.consume(1, seconds)
        return first + consumer.consume(count - 1, 0) if first and count > 1 else first
    finally:
        if collecting:
            gc.enable()


class _Lent:
    """A consumer on loan to one reading, which may change it for a new one."""

    def __init__(self, params: ClientParams, appetite: Appetite) -> None:
        self.params = params
        self._appetite = appetite
        # Clients do not survive a fork, so the process id is part of the key.
        self._key = (os.getpid(), params, appetite)
        self.consumer = _idle.pop(self._key) if self._key in _idle else self._build()

    def renew(self) -> None:
        self.consumer.close()
        self.consumer = self._build()

    def give_back(self) -> None:
        self.consumer.unassign()
        if _idle.setdefault(self._key, self.consumer) is not self.consumer:
            self.consumer.close()

    def _build(self) -> Consumer:
        return build_client(Consumer, self.params.for_executor(self._appetite.settings()))


@contextmanager
def _lend(params: ClientParams, appetite: Appetite) -> Iterator[_Lent]:
    """An idle consumer of this process, or a new one; two ranges read in turns get one each."""
    lent = _Lent(params, appetite)
    try:
        yield lent
    except KafkaException:
        lent.consumer.close()  # whatever is wrong with it stays behind
        raise
    except BaseException:
        lent.give_back()
        raise
    else:
        lent.give_back()
