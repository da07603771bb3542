"""`OnceWriter`: a task's rows of a query's batch are written to Kafka once, whatever runs again.

A task writes its rows and a note of (query, batch, rows) in one transaction. The note is the committed offset of a
consumer group of the task's own: the next batch id, with the rest as its metadata. A task that runs again finds the
note, and writes nothing. That is right as long as a replay gives each task the same rows, which is so where Spark plans
the batch as before. The note counts the rows and adds up their checksums, so a replay with others is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pyspark import TaskContext

from kafka_direct.broker import Cluster
from kafka_direct.broker.write.entries import Entry, read_entries
from kafka_direct.broker.write.transaction import Plan, Transaction
from kafka_direct.errors import ConfigError, OutOfOrder
from kafka_direct.offsets import TopicPartition
from kafka_direct.pyspark_names import WriterCommitMessage
from kafka_direct.worker import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_direct.options import ClientParams

    Row = tuple[str, dict[str, Any]]  # the topic, and the keywords of a record

_64_BITS = (1 << 64) - 1
_AND = 0x5BD1E995  # any bits: what stands before it is another part of the row


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of one task: which rows of which batch these are."""

    query: str
    run: str
    batch_id: int
    partition: int

    @classmethod
    def current(cls) -> Attempt:
        """That of the task that calls this."""
        context = TaskContext.get()
        properties = ["sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId"]
        query, run, batch = [None if context is None else context.getLocalProperty(key) for key in properties]
        if context is None or query is None or run is None or batch is None:
            raise ConfigError(
                "the option transactional needs to know which batch of which query a task writes, and Spark has not "
                "said so here; use it with writeStream, without foreachBatch."
            )
        return cls(query, run, int(batch), context.partitionId())


class Rows:
    """Rows on their way to Kafka: how many there were, and what they were, in any order."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.count = self.sum = 0

    def records(self) -> Iterator[dict[str, Any]]:
        """The keywords of `Producer.produce` for each row."""
        for topic, row in self._rows:
            self.count += 1
            self.sum += _checksum(row)
            row["topic"] = topic
            yield row

    def note(self) -> dict[str, Any]:
        return {"rows": self.count, "sum": f"{self.sum & _64_BITS:x}"}


class TaskWritten(WriterCommitMessage):
    """What a task tells the driver. `is_later`: it has written an earlier batch in this run of the query."""

    def __init__(self, query: str, *, is_later: bool) -> None:
        self.query = query
        self.is_later = is_later


@dataclass(frozen=True, slots=True)
class OnceWriter:
    """Writes to `topic`. `name` begins all transactional.ids and groups."""

    params: ClientParams
    name: str
    topic: str

    def write(self, rows: Iterable[Row]) -> TaskWritten:
        """Write the rows of the task that runs now, unless they are written.

        Raises:
            OutOfOrder: this task has written the batch before, with other rows.
            Fenced: another copy of this task is at work.
        """
        attempt, rows = Attempt.current(), whole(rows)
        # Another copy of this task may have a transaction open: the answer does not wait for it.
        before = self._entry(attempt.query, attempt.partition, is_stable=False)
        if before is None or before.number <= attempt.batch_id:
            self._write(attempt, rows)
        else:
            compare(attempt, rows, before)
        note = {} if before is None else before.note
        is_later = note.get("run") == attempt.run and note.get("batchId") != attempt.batch_id
        return TaskWritten(attempt.query, is_later=is_later)

    def require_whole(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Refuse a batch that an earlier run has written with more tasks: rows of theirs are there twice.

        Only the first batch of a run can have been run before.
        """
        told = [message for message in messages if isinstance(message, TaskWritten)]
        if not told or any(message.is_later for message in told):
            return  # a task without rows says nothing, but one that has written before does
        query, place = told[0].query, self._place
        for group in self._beyond(query, len(messages)):
            entry = read_entries(self.params, group, [place], is_stable=True).get(place)
            if entry is not None and entry.note.get("batchId") == batch_id:
                raise _other_rows(f"the query ran batch {batch_id} with more than {len(messages)} tasks before")

    def _beyond(self, query: str, tasks: int) -> list[str]:
        """The groups of this query's tasks from number `tasks` on, of any run. A task without rows has none."""

        def listed(admin: Any, seconds: float) -> Any:
            return admin.list_consumer_groups(request_timeout=seconds).result()

        connection = Cluster(self.params).connection
        try:
            names = [group.group_id for group in connection.ask(listed, "listing consumer groups").valid]
        finally:
            connection.close()
        prefix = self._task(query, 0).removesuffix("0")
        numbers = [int(rest) for name in names if name.startswith(prefix) and (rest := name[len(prefix) :]).isdecimal()]
        return [self._task(query, number) for number in sorted(numbers) if number >= tasks]

    def _write(self, attempt: Attempt, rows: Iterator[Row]) -> None:
        first = next(rows, None)
        if first is None:
            return  # nothing moves, and nothing is noted
        counted, found = Rows(chain([first], rows)), None
        name = self._task(attempt.query, attempt.partition)

        def plan() -> Plan:
            # Of the copies of this task only one has a producer by now, and what others have committed is seen.
            nonlocal found
            found = self._entry(attempt.query, attempt.partition, is_stable=True)
            if found is not None and found.number > attempt.batch_id:
                return Plan({}, is_new=False)
            entry = Entry(attempt.batch_id + 1, {"batchId": attempt.batch_id, "run": attempt.run})
            return Plan({self._place: entry}, is_new=True)

        transaction = Transaction(self.params, name, name, require_owner=lambda: None)
        done = transaction.run(plan, self.topic, counted.records(), counted.note)
        if not done.is_new and found is not None:
            compare(attempt, chain([first], rows), found)

    def _entry(self, query: str, partition: int, *, is_stable: bool) -> Entry | None:
        place = self._place
        return read_entries(self.params, self._task(query, partition), [place], is_stable=is_stable).get(place)

    def _task(self, query: str, partition: int) -> str:
        return f"{self.name}:{query}:{partition}"

    @property
    def _place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)


def compare(attempt: Attempt, rows: Iterable[Row], written: Entry) -> None:
    """Refuse a replay in which this task has other rows than those that it has written."""
    if written.note.get("batchId") != attempt.batch_id:
        return  # a later batch is written: this is a task of a driver that was frozen, and nothing of it counts
    again = Rows(rows)
    for _ in again.records():
        pass
    if again.note() != {key: written.note.get(key) for key in again.note()}:
        before, alike = written.note.get("rows"), "others" if again.count == written.note.get("rows") else "rows"
        raise _other_rows(
            f"task {attempt.partition} of batch {attempt.batch_id} wrote {before} rows before, and now has "
            f"{again.count} {alike}"
        )


def _checksum(row: dict[str, Any]) -> int:
    key, sum_ = row.get("key"), 1
    if key is not None:
        sum_ = crc32(key.encode() if isinstance(key, str) else key, 2)
    value = row.get("value")
    if value is not None:
        sum_ = crc32(value.encode() if isinstance(value, str) else value, sum_ ^ _AND)
    for name, header in row.get("headers") or ():
        sum_ = crc32(name.encode(), sum_)
        sum_ = sum_ ^ 1 if header is None else crc32(header, sum_ ^ _AND)
    return sum_ + ((row["partition"] + 1 << 32) if "partition" in row else 0)


def _other_rows(what: str) -> OutOfOrder:
    return OutOfOrder(
        f"{what}: some rows may be written twice; a replay has to give each task the same rows, so keep the number of "
        "partitions and the query's plan as they were, and see docs/exactly-once.md."
    )
