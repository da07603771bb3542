"""`Session`: one connection, and the statements on the rows of one output.

Rule: every change of a row compares the row with what was read before. If another transaction holds the row, the
database waits until it ends. Then the comparison fails, and the batch is planned again from the new row. Databases that
compare more than rows (serializable transactions) say the same with an error.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.sinks.progress import Progress, plan_advance

from .dialect import PLACEHOLDERS, CameFirst, is_taken
from .drivers import DriverRow
from .table import KEY

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafka_direct.sinks.batch import KafkaBatch
    from kafka_direct.sinks.output import Claim
    from kafka_direct.sinks.progress import Advance, Step

    from .table import Table


class Session:
    """One connection to the table, for one output."""

    def __init__(self, connection: Any, table: Table, output: str, paramstyle: str) -> None:
        self.connection = connection
        self.table = table
        self.output = output
        self.cursor = connection.cursor()
        self.drivers = DriverRow(self)
        self._placeholder = PLACEHOLDERS[paramstyle]

    @property
    def title(self) -> str:
        return f"output {self.output} in table {self.table.name}"

    def end(self) -> None:
        """Roll back what was not committed, after an error that is told in any case."""
        with suppress(Exception):
            self.connection.rollback()

    def owned_progress(self, claim: Claim, batch: KafkaBatch) -> dict[TopicPartition, Progress]:
        """The progress in the partitions of a batch, if no row has the epoch of another driver."""
        rows = self.select([range_.topicPartition() for range_ in batch.ranges])
        if any(epoch != claim.epoch for _, epoch in rows.values()):
            raise self.drivers.fenced(claim)
        return {partition: progress for partition, (progress, _) in rows.items()}

    def plan(self, claim: Claim, batch: KafkaBatch) -> Advance:
        return plan_advance(batch, self.owned_progress(claim, batch), output=self.title)

    def move(self, claim: Claim, steps: Collection[Step]) -> None:
        """Move the rows.

        Raises:
            CameFirst: one is not where it was.
        """
        if any(step.before is None for step in steps):
            self.drivers.lock(claim)
        change = f"UPDATE {self.table.name} SET first_offset = ?, next_offset = ?, origin = ?, moved = ?, "
        change += f"followed = ? WHERE {KEY} AND next_offset = ? AND origin = ? AND moved = ? AND epoch = ?"
        for step in steps:
            key, to = (self.output, step.topic_partition.topic, step.topic_partition.partition), step.after
            at = step.before
            if at is None:
                self._begin(key, to, claim.epoch)
            elif self.execute(change, *_values(to), *key, at.next, at.topic_id, at.moved, claim.epoch) != 1:
                raise CameFirst

    def require_moved(self, claim: Claim, steps: Collection[Step]) -> None:
        """Refuse to commit if the rows are back where they were: `write` has rolled back, or has hidden an error.

        After an error PostgreSQL answers a commit with a rollback, and drivers do not say so.
        """
        rows = self.select([step.topic_partition for step in steps])
        if any(rows.get(step.topic_partition) != (step.after, claim.epoch) for step in steps):
            raise ConfigError(
                f"the function that writes output {self.output} has rolled its transaction back; let it raise what "
                "goes wrong, and neither commit nor roll back."
            )

    def insert(self, key: tuple[str, str, int], progress: Progress, epoch: int) -> None:
        self.execute(
            f"INSERT INTO {self.table.name} (stream, topic, partition_id, first_offset, next_offset, origin, moved, "
            "followed, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(*key, *_values(progress), epoch),
        )

    def execute(self, statement: str, *values: Any) -> int:
        """Run a statement with ? for each value; the result is the number of rows that it changed."""
        parts = statement.split("?")  # no statement here has a ? in a text
        text = "".join(part + self._placeholder.format(n) for n, part in enumerate(parts[:-1], 1)) + parts[-1]
        self.cursor.execute(text, values)
        return int(self.cursor.rowcount)

    def can(self, select: str, table: str = "") -> bool:
        """Whether the database understands a query. Ends the transaction."""
        try:
            self.execute(f"{select} {table} WHERE 1 = 0" if table else select)
            self.cursor.fetchall()
        except Exception:  # noqa: BLE001  each driver has errors of its own
            return False
        else:
            return True
        finally:
            self.end()

    def speaks_mysql(self) -> bool:
        """Whether this is MySQL or MariaDB, which alone run what stands in such a comment."""
        self.execute("SELECT 1 /*! + 1 */")
        return int(self.cursor.fetchone()[0]) == 2

    def select(self, only: Collection[TopicPartition] = ()) -> dict[TopicPartition, tuple[Progress, int]]:
        """The progress and the epoch of each partition. Only a single partition is asked for by name, as tasks do."""
        if len(only) == 1:
            (one,) = only
            rows = self._rows(KEY, self.output, one.topic, one.partition)
        else:
            rows = self._rows("stream = ? AND partition_id >= 0", self.output)
        # Collations may give the rows of an output with another name.
        return {partition: row for (stream, partition), row in rows.items() if stream == self.output}

    def _begin(self, key: tuple[str, str, int], progress: Progress, epoch: int) -> None:
        """Insert the first row of a partition.

        Raises:
            CameFirst: the row is there.
            ConfigError: the row of another name is in its place.
        """
        # A second look: since the drivers' row is held, no other transaction inserts.
        for stream, partition in self._rows(KEY, *key):
            if (stream, partition.topic, partition.partition) == key:
                raise CameFirst
            here, there = (self.output, stream) if stream != self.output else (key[1], partition.topic)
            raise self.table.mixed_up(self, here, there)
        try:
            self.insert(key, progress, epoch)
        except Exception as error:
            if is_taken(error):  # a snapshot shows what was there before the drivers' row was held
                raise CameFirst from error
            raise

    def _rows(self, condition: str, *values: Any) -> dict[tuple[str, TopicPartition], tuple[Progress, int]]:
        columns = "stream, topic, partition_id, epoch, first_offset, next_offset, origin, moved, followed"
        self.execute(f"SELECT {columns} FROM {self.table.name} WHERE {condition}", *values)
        return {
            (stream, TopicPartition(topic, int(partition))): (
                Progress(int(first), int(next_), origin, int(moved), followed),
                int(epoch),
            )
            for stream, topic, partition, epoch, first, next_, origin, moved, followed in self.cursor.fetchall()
        }


def _values(progress: Progress) -> tuple[int, int, str, int, str]:
    return progress.first, progress.next, progress.topic_id, progress.moved, progress.followed
