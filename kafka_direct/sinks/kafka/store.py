"""`KafkaStore`: how far an output in Kafka has come, and which driver may write it, moved in transactions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_direct.broker.failure import servers_of
from kafka_direct.errors import Fenced
from kafka_direct.offsets import TopicPartition
from kafka_direct.sinks.output import Claim
from kafka_direct.sinks.progress import (
    Advance,
    Progress,
    plan_advance,
    plan_query_batch,
    plan_start,
    saved_positions,
)

from .transaction import Entry, Plan, Transaction, read_entries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafka_direct.offsets import SavedPositions
    from kafka_direct.options import ClientParams
    from kafka_direct.sinks.batch import KafkaBatch


@dataclass(frozen=True, slots=True)
class Drivers:
    """The drivers of an output. The group `name` has one entry: the epoch and the description of the newest driver.

    `name` is also the transactional.id of all that drivers write themselves, so a claim fences the driver before.
    """

    params: ClientParams
    output: str
    place: TopicPartition

    @property
    def name(self) -> str:
        return f"{self.output}-driver"

    def claim(self, owner: str, now: float) -> Claim:
        """Take the output over from all drivers before. Of two at a time, the one with the newer producer goes on."""

        def plan() -> Plan:
            # By the clock: brokers forget the entry a week after its commit, and a count would begin at 1 again.
            epoch = max(self._newest().number + 1, int(now))
            return Plan({self.place: Entry(epoch, {"first": 0, "owner": owner[:500]})}, is_new=False)

        # There is no owner to require: the claim is what makes this driver the newest.
        done = Transaction(self.params, self.name, self.name, require_owner=lambda: None).run(plan)
        return Claim(done.entries[self.place].number)

    def require_newest(self, claim: Claim) -> None:
        """Refuse to go on after another driver has claimed the output."""
        newest = self._newest()
        if newest.number > claim.epoch:  # it is lower if the brokers have forgotten the entry
            owner = str(newest.note.get("owner"))
            raise Fenced(
                f"output {self.output} in Kafka at {servers_of(self.params)} belongs to another driver now, {owner}, "
                "which started after this one; this one must stop: run one driver per output.",
                epoch=claim.epoch,
                owner=owner,
            )

    def _newest(self) -> Entry:
        return read_entries(self.params, self.name, [self.place]).get(self.place, Entry(0, {}))


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

    def writer_of(self, part: KafkaBatch) -> str:
        """The transactional.id for all that comes from the source partition of `part`."""
        return f"{self.name}-{part.ranges[0].topic}-{part.ranges[0].partition}"

    def positions(self, partitions: Collection[TopicPartition]) -> SavedPositions:
        """The next offset of each source partition that the output has begun."""
        entries = read_entries(self.params, self.name, partitions)
        return saved_positions({p: _progress_of(entry) for p, entry in entries.items()})

    def find_new(self, claim: Claim, batch: KafkaBatch) -> list[KafkaBatch]:
        """The parts of a batch in whose partitions the output has not begun, or begins anew."""
        new = {step.topic_partition for step in plan_start(batch, self._progress(claim, batch))}
        return [batch.part(i) for i, range_ in enumerate(batch.ranges) if range_.topicPartition() in new]

    def save_start(self, claim: Claim, part: KafkaBatch) -> None:
        """Save where the output begins in the partition of `part`, unless it has begun."""

        def plan() -> Plan:
            return _plan(Advance(plan_start(part, self._progress(claim, part)), is_new=False), epoch=claim.epoch)

        self._transaction(claim, self.writer_of(part), self.name).run(plan)

    def is_saved(self, claim: Claim, batch: KafkaBatch) -> bool:
        """Whether nothing is left to save of a batch. The output has begun in its partitions. `save` looks again."""
        return not self._advance(claim, batch).steps

    def save(self, claim: Claim, batch: KafkaBatch, records: Iterable[Any], *, writer: str) -> bool:
        """Write records, and the batch as saved, in one transaction of the transactional.id `writer`.

        False, and the records are not looked at, if the output has the batch.

        Raises:
            Fenced: another driver has taken over, or another copy of this task has.
            OutOfOrder, ConfigError: as `plan_advance`.
            ConfigError: the records took longer to come than a transaction may last.
        """

        def plan() -> Plan:
            return _plan(self._advance(claim, batch), batchId=batch.batch_id, epoch=claim.epoch)

        return self._transaction(claim, writer, self.name).run(plan, self.topic, records).is_new

    def save_query_batch(self, claim: Claim, query: str | None, batch_id: int, records: Iterable[Any]) -> bool:
        """Write records, and a batch of a query as saved, in one transaction. False if the output has the batch.

        Raises:
            Fenced, OutOfOrder, ConfigError: as `save`.
        """
        group, place = f"{self.name}-batches" + (f"-{query}" if query else ""), self.drivers.place

        def plan() -> Plan:
            progress = self._read(claim, group, [place]).get(place)
            advance = plan_query_batch(place, batch_id, progress, output=f"output {self.name}")
            return _plan(advance, batchId=batch_id, epoch=claim.epoch)

        return self._transaction(claim, self.drivers.name, group).run(plan, self.topic, records).is_new

    def _advance(self, claim: Claim, batch: KafkaBatch) -> Advance:
        return plan_advance(batch, self._progress(claim, batch), output=f"output {self.name}")

    def _progress(self, claim: Claim, batch: KafkaBatch) -> dict[TopicPartition, Progress]:
        return self._read(claim, self.name, [range_.topicPartition() for range_ in batch.ranges])

    def _read(self, claim: Claim, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Progress]:
        entries = read_entries(self.params, group, places)
        if any(entry.note.get("epoch", 0) > claim.epoch for entry in entries.values()):
            self.drivers.require_newest(claim)
        return {place: _progress_of(entry) for place, entry in entries.items()}

    def _transaction(self, claim: Claim, writer: str, group: str) -> Transaction:
        return Transaction(self.params, writer, group, require_owner=partial(self.drivers.require_newest, claim))


def _plan(advance: Advance, **note: Any) -> Plan:
    """The transaction that saves an advance of the progress."""
    moved = {step.topic_partition: step.after for step in advance.steps}
    return Plan({p: Entry(to.next, _note(to) | note) for p, to in moved.items()}, advance.is_new)


def _note(progress: Progress) -> dict[str, Any]:
    topic = {"topicId": progress.topic_id} if progress.topic_id else {}
    return {"first": progress.first, **topic, **({"moved": progress.moved} if progress.moved else {})}


def _progress_of(entry: Entry) -> Progress:
    note = entry.note
    return Progress(note.get("first", 0), entry.number, note.get("topicId", ""), note.get("moved", 0))
