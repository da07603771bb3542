"""`TransactionalOutput`: records and the source offsets they come from, in one Kafka transaction.

Each writer of an output has a transactional.id, and the brokers let the newest producer of an id work alone. What is
committed is asked after that is settled: then nothing of an older producer can come any more, so a range that is not
there yet is not on its way either. The offsets go into the transaction before the first record: a kept producer that
was fenced meanwhile learns it while its records can still be given to a new one.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_direct.broker.failure import servers_of
from kafka_direct.broker.group.consumer_group import ConsumerGroup
from kafka_direct.broker.idle import IdleClients
from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import Fenced
from kafka_direct.offsets import TopicPartition
from kafka_direct.sinks.progress import Advance, Progress, Step, plan_advance, plan_start

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kafka_direct.offsets import Loss, OffsetRange
    from kafka_direct.options import ClientParams

# By transactional.id.
_idle: IdleClients[tuple[ClientParams, str], TransactionalProducer] = IdleClients()
_groups: dict[tuple[int, ClientParams], ConsumerGroup] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalOutput:
    """The output `name`: its progress is that of the consumer group `name`, written by nobody but its transactions.

    `epoch` is the driver's that this belongs to; see `claim`.
    """

    params: ClientParams
    name: str
    topic: str
    epoch: int = 0
    group: str | None = None  # another one than `name`, for progress of another kind

    def claim(self, owner: str) -> TransactionalOutput:
        """Take the output over: the same, for a driver newer than all before. `owner` is what these are told."""
        drivers, marker = self._drivers(), TopicPartition(self.topic, 0)

        def count() -> Advance:
            epoch, _ = drivers.owner()
            # By the clock, as brokers forget what was not committed to for a week: a count would begin anew.
            return Advance((Step(marker, epoch, Progress(0, max(epoch + 1, int(time.time())))),), is_new=True)

        # Of two that claim at a time, the later producer goes on.
        with drivers.transaction(self.driver_writer, count, {"owner": owner[:500]}) as (_, counted):
            return replace(self, epoch=counted.steps[0].after.next)

    def require_owner(self) -> None:
        """Refuse to go on after another driver has claimed the output."""
        epoch, owner = self._drivers().owner()
        if epoch > self.epoch:  # less: the brokers have forgotten it
            raise self._fenced(owner)

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset of each source partition that the output has begun.

        Asked of a consumer, by partition: an AdminClient that asks for all of a group's dies of a segmentation fault
        when the coordinator moves (librdkafka #5040).
        """
        return self._group().committed(partitions)

    def find_unknown(self, ranges: Collection[OffsetRange]) -> list[OffsetRange]:
        """The ranges in whose partitions the output has not begun."""
        known = self._progress(ranges)
        return [range_ for range_ in ranges if range_.topicPartition() not in known]

    def note_start(self, range_: OffsetRange) -> None:
        """Note where the output begins in a partition, unless it has."""

        def begin() -> Advance:
            return Advance(plan_start([range_], self._progress([range_])), is_new=False)

        with self.transaction(self.writer_of(range_), begin, {"epoch": self.epoch}):
            pass

    @property
    def driver_writer(self) -> str:
        """The transactional.id for all that the driver writes itself: whoever claims the output fences it."""
        return f"{self.name}-driver"

    def writer_of(self, range_: OffsetRange) -> str:
        """The transactional.id for all that comes from one source partition."""
        return f"{self.name}-{range_.topic}-{range_.partition}"

    def is_saved(self, ranges: Collection[OffsetRange], losses: Collection[Loss]) -> bool:
        """Whether nothing is left to write; ranges in which the output has begun. Only a look: `write` decides."""
        return not self._plan(ranges, losses).steps

    def write(
        self,
        writer: str,
        ranges: Collection[OffsetRange],
        records: Iterable[Any],
        *,
        losses: Collection[Loss] = (),
        batch_id: int | None = None,
    ) -> bool:
        """Write records and note their ranges in one transaction of the producer `writer`.

        False, and the records are not looked at, if the output has the ranges.

        Raises:
            Fenced: another driver has taken over, or another copy of this task has.
            OutOfOrder, ConfigError: as `plan_advance`.
            ConfigError: the records took longer to come than a transaction may last.
        """
        judge = partial(self._plan, ranges, losses)
        with self.transaction(writer, judge, {"batchId": batch_id, "epoch": self.epoch}) as (producer, advance):
            if advance.is_new:
                producer.write(self.topic, records)
            return advance.is_new

    def _plan(self, ranges: Collection[OffsetRange], losses: Collection[Loss]) -> Advance:
        return plan_advance(ranges, self._progress(ranges), output=f"output {self.name}", losses=losses)

    @contextmanager
    def transaction(
        self, writer: str, judge: Callable[[], Advance], note: dict[str, Any]
    ) -> Iterator[tuple[TransactionalProducer, Advance]]:
        """A transaction that moves the progress as `judge` says; none if it does not move.

        Committed at the block's end, aborted on its error.
        """
        key = (self.params, writer)
        if not self._is_claiming():
            self.require_owner()  # a newer driver's producers are left alone, and its claim is final
        producer = _idle.take(key) or self._new_producer(writer)
        advance = judge()
        try:
            self._begin(producer, advance, note)
        except Fenced:
            # Since it was kept, another worker has had this partition. What that has done is judged anew.
            producer = self._new_producer(writer)
            advance = judge()
            self._begin(producer, advance, note)
        try:
            yield producer, advance
            if advance.steps:
                producer.commit()
        except BaseException:
            producer.abort()
            raise
        # Not after an error: what is wrong with a producer stays behind.
        _idle.keep(key, producer)

    def _new_producer(self, writer: str) -> TransactionalProducer:
        """A producer that fences all others of its id."""
        producer = TransactionalProducer(self.params, writer)
        if not self._is_claiming():
            self.require_owner()  # that takes long; who comes from here on fences this one
        return producer

    def _is_claiming(self) -> bool:
        """Whether this is about the drivers themselves: whoever claims the output is newer than all of them."""
        return self == self._drivers()

    def _begin(self, producer: TransactionalProducer, advance: Advance, note: dict[str, Any]) -> None:
        offsets = [
            (step.topic_partition, step.after.next, json.dumps({"first": step.after.first, **note}))
            for step in advance.steps
        ]
        if offsets:
            producer.begin(offsets, self._group())

    def _progress(self, ranges: Collection[OffsetRange]) -> dict[TopicPartition, Progress]:
        progress = {}
        for partition, (offset, text) in self._group().progress([r.topicPartition() for r in ranges]).items():
            noted = _parse(text)
            if noted.get("epoch", 0) > self.epoch:
                self.require_owner()
            progress[partition] = Progress(noted.get("first", 0), offset)
        return progress

    def owner(self) -> tuple[int, str]:
        """The epoch of the newest driver, in a group of drivers, and what it says of itself."""
        epoch, text = (
            self._group().progress([TopicPartition(self.topic, 0)]).get(TopicPartition(self.topic, 0), (0, "{}"))
        )
        return epoch, str(_parse(text).get("owner"))

    def _fenced(self, owner: str) -> Fenced:
        return Fenced(
            f"output {self.name} in Kafka at {servers_of(self.params)} belongs to another driver now, {owner}, which "
            "started after this one; this one must stop: run one driver per output.",
            epoch=self.epoch,
            owner=owner,
        )

    def _group(self) -> ConsumerGroup:
        # Read committed: the answer waits for a transaction that is being finished.
        params = replace(self.params, group_id=self.group or self.name, isolation_level="read_committed")
        return _groups.setdefault((os.getpid(), params), ConsumerGroup(params))

    def _drivers(self) -> TransactionalOutput:
        """Where drivers are counted: a group of its own, with the epoch as the offset of one partition."""
        return replace(self, group=f"{self.name}-driver")


def _parse(text: str) -> dict[str, Any]:
    """What a transaction noted; nothing where somebody moved the group by hand."""
    with suppress(ValueError):
        noted = json.loads(text)
        if isinstance(noted, dict):
            return noted
    return {}
