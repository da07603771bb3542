"""`KafkaStore`: how far an output in Kafka has come, moved in transactions by the newest driver and its tasks.

A driver takes each partition over before it writes there: it fences what the drivers before may have open, and writes
the partition's entry under its own epoch. Only after that it waits for answers that are stable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_direct.broker.write.entries import ANSWER_SECONDS, Entry, read_entries
from kafka_direct.broker.write.transaction import Plan, Transaction
from kafka_direct.errors import Fenced
from kafka_direct.offsets import TopicPartition
from kafka_direct.sinks.progress import (
    Advance,
    Progress,
    plan_advance,
    plan_query_batch,
    plan_start,
    saved_positions,
)

from .drivers import Drivers
from .writers import Writers, fence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafka_direct.offsets import SavedPositions
    from kafka_direct.options import ClientParams
    from kafka_direct.sinks.batch import KafkaBatch

    from .claim import KafkaClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaStore:
    """The output `name` in `topic`.

    Its progress in source partitions is what the consumer group `name` has committed. That of a query is in a group of
    the query's own, counted in batch ids, as the entry of partition 0 of `topic`.
    """

    params: ClientParams
    name: str
    topic: str

    @property
    def drivers(self) -> Drivers:
        return Drivers(self.params, self.name, TopicPartition(self.topic, 0))

    @property
    def writers(self) -> Writers:
        return Writers(self.name)

    def positions(self, partitions: Collection[TopicPartition], *, seconds: float = ANSWER_SECONDS) -> SavedPositions:
        """The next offset of each source partition that the output has begun.

        Waits for open transactions: a driver that starts where one of them began would run into it.
        """
        entries = read_entries(self.params, self.name, partitions, is_stable=True, seconds=seconds)
        return saved_positions({p: _progress_of(entry) for p, entry in entries.items()})

    def take_over(self, claim: KafkaClaim, batch: KafkaBatch) -> None:
        """Make the partitions of a batch this driver's, and note where the output begins in those that are new to it.

        What drivers before have open there is fenced. The driver does it before each batch; mostly there is nothing
        to do.

        Raises:
            Fenced: another driver has taken over.
        """
        entries = self._entries(batch, is_stable=False)
        if not self._find_steps(claim, batch, entries):
            return
        foreign = {r.topicPartition() for r in batch.ranges} - {
            p for p, entry in entries.items() if entry.epoch == claim.epoch
        }
        self._fence(claim, foreign, entries)

        def plan() -> Plan:
            moved = self._find_steps(claim, batch, self._entries(batch, is_stable=True))
            return _plan(moved, is_new=False, epoch=claim.epoch)

        self._transaction(claim, self.writers.driver(claim.epoch), self.name).run(plan)

    def end_open(self, claim: KafkaClaim, partitions: Collection[TopicPartition]) -> None:
        """End what drivers before have open in partitions, of which no batch is known yet."""
        self._fence(claim, partitions, read_entries(self.params, self.name, partitions, is_stable=False))

    def is_saved(self, claim: KafkaClaim, batch: KafkaBatch) -> bool:
        """Whether nothing is left to save of a batch whose partitions are taken over. `save` looks again."""
        return not self._advance(claim, batch).steps

    def save(self, claim: KafkaClaim, batch: KafkaBatch, records: Iterable[Any], *, writer: str) -> bool:
        """Write records, and the batch as saved, in one transaction of the transactional.id `writer`.

        False, and the records are not looked at, if the output has the batch.

        Raises:
            Fenced: another driver has taken over, or another copy of this task has.
            OutOfOrder, ConfigError: as `plan_advance`.
            ConfigError: the records took longer to come than a transaction may last.
        """

        def plan() -> Plan:
            return _plan_advance(self._advance(claim, batch), batchId=batch.batch_id, epoch=claim.epoch)

        return self._transaction(claim, writer, self.name).run(plan, self.topic, records).is_new

    def save_part(self, claim: KafkaClaim, part: KafkaBatch, records: Iterable[Any]) -> bool:
        """`save` the batch of one range, by the id of its partition."""
        return self.save(claim, part, records, writer=self.writers.of(claim.epoch, part.ranges[0].topicPartition()))

    def save_whole(self, claim: KafkaClaim, batch: KafkaBatch, records: Iterable[Any]) -> bool:
        """`save` a whole batch, by the id of the driver."""
        return self.save(claim, batch, records, writer=self.writers.driver(claim.epoch))

    def save_query_batch(
        self,
        claim: KafkaClaim,
        query: str,
        batch_id: int,
        records: Iterable[Any],
        is_reset: Callable[[int], bool] = lambda _: False,
    ) -> bool:
        """Write records, and a batch of a query as saved, in one transaction. False if the output has the batch.

        Nothing is to be taken over: only drivers write here, and the claim has fenced those before.

        Raises:
            Fenced, OutOfOrder, ConfigError: as `save`.
        """
        group, place = f"{self.name}-batches-{query}", self.drivers.place

        def plan() -> Plan:
            entries = read_entries(self.params, group, [place], is_stable=True)
            self._refuse_newer(claim, entries)
            progress = _progress_in(entries).get(place)
            advance = plan_query_batch(place, batch_id, progress, output=f"output {self.name}", is_reset=is_reset)
            return _plan_advance(advance, batchId=batch_id, epoch=claim.epoch)

        writer = self.writers.driver(claim.epoch)
        return self._transaction(claim, writer, group).run(plan, self.topic, records).is_new

    def _find_steps(
        self, claim: KafkaClaim, batch: KafkaBatch, entries: Mapping[TopicPartition, Entry]
    ) -> dict[TopicPartition, Progress]:
        """What is to be noted before a batch: where the output begins, and that other drivers' partitions are ours."""
        self._refuse_newer(claim, entries)
        foreign = {p: _progress_of(entry) for p, entry in entries.items() if entry.epoch != claim.epoch}
        begun = {step.topic_partition: step.after for step in plan_start(batch, _progress_in(entries))}
        return foreign | begun

    def _fence(
        self, claim: KafkaClaim, places: Collection[TopicPartition], entries: Mapping[TopicPartition, Entry]
    ) -> None:
        fence(self.params, [self.writers.of(e, p) for p in sorted(places) for e in claim.before(entries.get(p))])

    def _advance(self, claim: KafkaClaim, batch: KafkaBatch) -> Advance:
        entries = self._entries(batch, is_stable=True)
        self._refuse_newer(claim, entries)
        if others := sorted(p for p, entry in entries.items() if entry.epoch != claim.epoch):
            raise Fenced(
                f"the entry of {others[0]} in group {self.name} was written by somebody else while this batch was "
                "saved; run one driver per output, and leave its group alone.",
                epoch=claim.epoch,
            )
        return plan_advance(batch, _progress_in(entries), output=f"output {self.name}")

    def _entries(self, batch: KafkaBatch, *, is_stable: bool) -> dict[TopicPartition, Entry]:
        places = [range_.topicPartition() for range_ in batch.ranges]
        return read_entries(self.params, self.name, places, is_stable=is_stable)

    def _refuse_newer(self, claim: KafkaClaim, entries: Mapping[TopicPartition, Entry]) -> None:
        newer = [entry for entry in entries.values() if entry.epoch > claim.epoch]
        if newer:
            self.drivers.require_newest(claim)
            raise self.drivers.fenced(claim, newer[0])

    def _transaction(self, claim: KafkaClaim, writer: str, group: str) -> Transaction:
        return Transaction(self.params, writer, group, require_owner=partial(self.drivers.require_newest, claim))


def _plan_advance(advance: Advance, **note: Any) -> Plan:
    """The transaction that saves an advance of the progress."""
    return _plan({step.topic_partition: step.after for step in advance.steps}, is_new=advance.is_new, **note)


def _plan(moved: Mapping[TopicPartition, Progress], *, is_new: bool, **note: Any) -> Plan:
    return Plan({place: Entry(to.next, _note(to) | note) for place, to in moved.items()}, is_new)


def _note(progress: Progress) -> dict[str, Any]:
    topic = {"topicId": progress.topic_id} if progress.topic_id else {}
    moved = {"moved": progress.moved, "followed": progress.followed} if progress.moved or progress.followed else {}
    return {"first": progress.first, **topic, **moved}


def _progress_in(entries: Mapping[TopicPartition, Entry]) -> dict[TopicPartition, Progress]:
    return {place: _progress_of(entry) for place, entry in entries.items()}


def _progress_of(entry: Entry) -> Progress:
    note = entry.note
    topic_id, moved, followed = note.get("topicId", ""), note.get("moved", 0), note.get("followed", "")
    return Progress(note.get("first", 0), entry.number, topic_id, moved, followed)
