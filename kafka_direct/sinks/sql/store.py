"""`SqlOffsetStore`: how far an output has come, in a table beside the results, moved in the transaction of the results.

Any DB-API 2.0 connection will do, but for Oracle's, which has no empty text; no driver is imported here. The table has
one row per partition, and one row for the drivers of the output: each driver claims the output with the next epoch, and
a row moves only under the newest epoch. So of two drivers the newer one works and the older one is fenced.

Rule: every change of a row compares the row with what was read before. If another transaction holds the row, the
database waits until it ends. Then the comparison fails, and the batch is planned again from the new row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced
from kafka_direct.offsets import LogOwner, TopicPartition
from kafka_direct.sinks.output import Claim
from kafka_direct.sinks.progress import Advance, Progress, plan_advance, plan_start, saved_positions

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafka_direct.offsets import SavedPositions
    from kafka_direct.sinks.batch import KafkaBatch
    from kafka_direct.sinks.progress import Step

Connect = Callable[[], Any]
Write = Callable[[Any], object]

TABLE = "kafka_direct_offsets"

# A copy of the same task, or a retry, can move a row between look and change: once or twice. More is another driver.
ATTEMPTS = 5

# By position in each style: drivers of the named one take a sequence too.
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":{}"}

# Columns that were not there from the beginning. Of a partition: the id of its topic, and the last reset that the
# output has followed. Of the drivers: the id of the newest one's offset log, and the epoch of its claim to that log.
_ADDED = ("origin VARCHAR(64) DEFAULT '' NOT NULL", "moved BIGINT DEFAULT 0 NOT NULL")

_KEY = "stream = ? AND topic = ? AND partition_id = ?"
_TABLE_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."


class SqlOffsetStore:
    """The progress of the output `name`, in a table of any database.

    `connect` gives a new connection each time, with autocommit off (DB-API's default). The table is made at the first
    use; `schema` is the statement, for databases where another person has to make it.
    """

    def __init__(self, connect: Connect, name: str, *, table: str = TABLE, paramstyle: str | None = None) -> None:
        if not callable(connect):
            raise ArgumentTypeError(
                "connect must be a function that opens a DB-API connection, as in lambda: sqlite3.connect('results.db')"
                f"; it is a {type(connect).__name__}."
            )
        if not isinstance(name, str) or not name or len(name) > 200:
            raise ConfigError(f"name={name!r} names the output in the table {table}: give 1 to 200 characters.")
        if not table or not set(table) <= set(_TABLE_NAME):
            raise ConfigError(f"table={table!r} must be a plain SQL name: letters, digits, _ and dots.")
        if paramstyle is not None and paramstyle not in _PLACEHOLDERS:
            raise ConfigError(f"paramstyle={paramstyle!r} is none of DB-API's: {', '.join(_PLACEHOLDERS)}.")
        self._connect = connect
        self.name = name
        self.table = table
        self._paramstyle = paramstyle

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> SqlOffsetStore:
        store = cls.__new__(cls)
        vars(store).update(name=state["name"], table=state["table"], _paramstyle=state["paramstyle"])
        return store

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {"name": self.name, "table": self.table, "paramstyle": self._paramstyle}
        # The user's function comes later: it may be a method of an object that holds the sink of this store.
        return persisted(self, "sql-store", plain, later={"_connect": self._connect})

    @property
    def schema(self) -> str:
        """The statement that makes the table."""
        return (
            f"CREATE TABLE {self.table} (stream VARCHAR(200) NOT NULL, topic VARCHAR(249) NOT NULL, "
            "partition_id INTEGER NOT NULL, first_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, "
            f"epoch BIGINT NOT NULL, owner VARCHAR(200), {', '.join(_ADDED)}, "
            "PRIMARY KEY (stream, topic, partition_id))"
        )

    @property
    def upgrades(self) -> list[str]:
        """The statements that bring a table of an earlier version up to date."""
        return [f"ALTER TABLE {self.table} ADD COLUMN {column}" for column in _ADDED]

    def positions(self) -> SavedPositions:
        """The next offset of each partition, for `fromOffsets`; empty if nothing was ever saved."""
        with self._session() as session:
            session.require_table()
            return saved_positions({partition: progress for partition, (progress, _) in session.select().items()})

    def claim(self, owner: str, log: LogOwner | None = None) -> Claim:
        """Take the output over from any other driver. No transaction of that driver can be committed after this.

        `owner` describes this driver to the one that it fences. Of two drivers of one offset log, `log`, the one that
        owns the log wins: else each could end the other.

        Raises:
            Fenced: a driver with a newer claim to the same log has the output.
        """
        with self._session() as session:
            session.require_table()
            epoch = session.drivers.add(owner[:200], LogOwner("", 0) if log is None else log)
            session.connection.commit()
        return Claim(epoch)

    def save_start(self, claim: Claim, batch: KafkaBatch) -> None:
        """Save where the output begins in partitions that are new to it. The driver does so before each batch.

        Raises:
            Fenced: another driver has taken over.
        """
        with self._session() as session:
            self._save_start(session, claim, batch)

    def is_saved(self, claim: Claim, batch: KafkaBatch) -> bool:
        """Whether nothing is left to save: the output has the batch, or it has no records and no loss.

        Saves where the output begins.

        Raises:
            Fenced, OutOfOrder, ConfigError: as `save`.
        """
        with self._session() as session:
            self._save_start(session, claim, batch)
            return not session.plan(claim, batch).steps

    def save(self, claim: Claim, batch: KafkaBatch, write: Write) -> bool:
        """Call `write(cursor)` and save the progress, in one transaction. False, and no call, if the batch is saved.

        Raises:
            Fenced: another driver has taken over, or has saved a part of the batch.
            OutOfOrder: the batch before is not saved.
            ConfigError: the batch begins before the output does, or the connection commits by itself.
        """
        with self._session() as session:
            return self._advance(session, claim, lambda: session.plan(claim, batch), write)

    def _save_start(self, session: _Session, claim: Claim, batch: KafkaBatch) -> None:
        def plan() -> Advance:
            return Advance(plan_start(batch, session.owned_progress(claim, batch)), is_new=False)

        self._advance(session, claim, plan, write=lambda _: None)

    def _advance(self, session: _Session, claim: Claim, plan: Callable[[], Advance], write: Write) -> bool:
        """Do what `plan()` says of the present rows; plan again if another transaction came first."""
        for _ in range(ATTEMPTS):
            advance = plan()
            if session.move(claim, advance.steps):
                if advance.is_new:
                    with closing(session.connection.cursor()) as cursor:
                        write(cursor)
                    session.require_moved(claim, advance.steps)
                if advance.steps:
                    session.connection.commit()
                return advance.is_new
            session.connection.rollback()
        raise Fenced(
            f"output {self.name} in table {self.table} moved {ATTEMPTS} times while one batch was to be saved; run one "
            "driver per output."
        )

    @contextmanager
    def _session(self) -> Iterator[_Session]:
        with closing(self._connect()) as connection:
            session = _Session(self, connection, self._paramstyle or find_paramstyle(connection))
            try:
                yield session
            finally:
                session.connection.rollback()  # of nothing, if it was committed


class _Session:
    """One connection, and the statements on the rows of one output."""

    def __init__(self, store: SqlOffsetStore, connection: Any, paramstyle: str) -> None:
        _refuse_autocommit(connection)
        self.store = store
        self.connection = connection
        self.cursor = connection.cursor()
        self._placeholder = _PLACEHOLDERS[paramstyle]
        self.drivers = _DriverRow(self)

    def require_table(self) -> None:
        """Make the table if it is not there. A look comes first: the user may have no right to make tables."""
        try:
            self.drivers.newest()
        except Exception:  # noqa: BLE001  each driver has errors of its own
            self.connection.rollback()
            try:
                for statement in self.store.upgrades if self._is_old() else [self.store.schema]:
                    self.execute(statement)
                self.connection.commit()
            except Exception:  # noqa: BLE001
                self.connection.rollback()
                self.drivers.newest()  # the table is there if another process has made it; else this says why
        self.connection.rollback()  # ends the transaction of the look

    def _is_old(self) -> bool:
        """Whether the table is there, as an earlier version made it."""
        try:
            self.execute(f"SELECT epoch FROM {self.store.table} WHERE {_KEY}", self.store.name, "", -1)
            self.cursor.fetchall()
        except Exception:  # noqa: BLE001
            return False
        else:
            return True
        finally:
            self.connection.rollback()

    def owned_progress(self, claim: Claim, batch: KafkaBatch) -> dict[TopicPartition, Progress]:
        """The progress in the partitions of a batch, if no row has the epoch of another driver."""
        rows = self.select([range_.topicPartition() for range_ in batch.ranges])
        if any(epoch != claim.epoch for _, epoch in rows.values()):
            raise self.drivers.fenced(claim)
        return {partition: progress for partition, (progress, _) in rows.items()}

    def plan(self, claim: Claim, batch: KafkaBatch) -> Advance:
        output = f"output {self.store.name} in table {self.store.table}"
        return plan_advance(batch, self.owned_progress(claim, batch), output=output)

    def move(self, claim: Claim, steps: Collection[Step]) -> bool:
        """Move the rows. False if one is not where it was: another transaction came first."""
        if any(step.before is None for step in steps):
            self.drivers.lock(claim)
        change = f"UPDATE {self.store.table} SET first_offset = ?, next_offset = ?, origin = ?, moved = ? WHERE {_KEY}"
        change += " AND next_offset = ? AND origin = ? AND moved = ? AND epoch = ?"
        for step in steps:
            key, to = (self.store.name, step.topic_partition.topic, step.topic_partition.partition), step.after
            at = step.before
            if at is None:
                if self.select([step.topic_partition]):  # a second look: since the lock no other transaction inserts
                    return False
                self.insert(key, to, claim.epoch)
            elif self.execute(change, *_values(to), *key, at.next, at.topic_id, at.moved, claim.epoch) != 1:
                return False
        return True

    def require_moved(self, claim: Claim, steps: Collection[Step]) -> None:
        """Refuse to commit if the rows are back where they were: `write` has rolled back, or has hidden an error.

        After an error PostgreSQL answers a commit with a rollback, and drivers do not say so.
        """
        rows = self.select([step.topic_partition for step in steps])
        if any(rows.get(step.topic_partition) != (step.after, claim.epoch) for step in steps):
            raise ConfigError(
                f"the function that writes output {self.store.name} has rolled its transaction back; let it raise "
                "what goes wrong, and neither commit nor roll back."
            )

    def insert(self, key: tuple[str, str, int], progress: Progress, epoch: int) -> None:
        self.execute(
            f"INSERT INTO {self.store.table} (stream, topic, partition_id, first_offset, next_offset, origin, moved, "
            "epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(*key, *_values(progress), epoch),
        )

    def execute(self, statement: str, *values: Any) -> int:
        """Run a statement with ? for each value; the result is the number of rows that it changed."""
        parts = statement.split("?")  # no statement here has a ? in a text
        text = "".join(part + self._placeholder.format(n) for n, part in enumerate(parts[:-1], 1)) + parts[-1]
        self.cursor.execute(text, values)
        return int(self.cursor.rowcount)

    def select(self, only: Collection[TopicPartition] = ()) -> dict[TopicPartition, tuple[Progress, int]]:
        """The progress and the epoch of each partition. Only a single partition is asked for by name, as tasks do."""
        columns = "topic, partition_id, epoch, first_offset, next_offset, origin, moved"
        text = f"SELECT {columns} FROM {self.store.table} WHERE "
        if len(only) == 1:
            (one,) = only
            self.execute(text + _KEY, self.store.name, one.topic, one.partition)
        else:
            self.execute(f"{text}stream = ? AND partition_id >= 0", self.store.name)
        return {
            TopicPartition(topic, int(partition)): (Progress(int(first), int(next_), origin, int(moved)), int(epoch))
            for topic, partition, epoch, first, next_, origin, moved in self.cursor.fetchall()
        }


def _values(progress: Progress) -> tuple[int, int, str, int]:
    return progress.first, progress.next, progress.topic_id, progress.moved


class _DriverRow:
    """The row of the drivers: the epoch and the description of the newest. No partition of Kafka has its key."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._table = session.store.table
        self._key = (session.store.name, "", -1)

    def newest(self) -> tuple[int, str, LogOwner]:
        """The newest driver's epoch, its description, and its claim to its offset log."""
        self._session.execute(f"SELECT epoch, owner, origin, moved FROM {self._table} WHERE {_KEY}", *self._key)
        row: tuple[int, str, str, int] | None = self._session.cursor.fetchone()
        return (0, "", LogOwner("", 0)) if row is None else (int(row[0]), row[1], LogOwner(row[2], int(row[3])))

    def add(self, owner: str, log: LogOwner) -> int:
        """Make this driver the newest; the result is its epoch."""
        if not self._count(owner, log):
            epoch, _, newest = self.newest()
            if newest.log == log.log and newest.epoch > log.epoch:
                raise self.fenced(Claim(epoch))
            try:
                self._session.insert(self._key, Progress(0, 0), 0)
            except Exception:
                # Two drivers come first: this one has waited for the other's insert, and comes second.
                self._session.connection.rollback()
                if not self._count(owner, log):
                    raise
            else:
                self._count(owner, log)
        epoch, _, _ = self.newest()
        # This changes every row, so it waits for all open transactions of the driver before.
        self._session.execute(f"UPDATE {self._table} SET epoch = ? WHERE stream = ?", epoch, self._session.store.name)
        return int(epoch)

    def lock(self, claim: Claim) -> None:
        """Hold the row until the transaction ends, so that only one transaction at a time inserts rows.

        It is held by a change of next_offset: MySQL's drivers do not count a row that stays what it was.

        Raises:
            Fenced: another driver has taken over.
        """
        change = f"UPDATE {self._table} SET next_offset = next_offset + 1 WHERE {_KEY} AND epoch = ?"
        if self._session.execute(change, *self._key, claim.epoch) != 1:
            raise self.fenced(claim)

    def fenced(self, claim: Claim) -> Fenced:
        _, owner, _ = self.newest()
        return Fenced(
            f"output {self._session.store.name} in table {self._table} belongs to another driver now, {owner}, which "
            "started after this one; this one must stop: run one driver per output.",
            epoch=claim.epoch,
            owner=owner,
        )

    def _count(self, owner: str, log: LogOwner) -> bool:
        change = f"UPDATE {self._table} SET epoch = epoch + 1, owner = ?, origin = ?, moved = ? WHERE {_KEY}"
        change += " AND (origin <> ? OR moved <= ?)"
        return self._session.execute(change, owner, *log, *self._key, *log) == 1


def find_paramstyle(connection: Any) -> str:
    """The way the driver of a connection marks parameters, which its module says.

    >>> import sqlite3
    >>> find_paramstyle(sqlite3.connect(":memory:"))
    'qmark'
    """
    name = type(connection).__module__
    while name:
        style = getattr(sys.modules.get(name), "paramstyle", None)
        if style in _PLACEHOLDERS:
            return str(style)
        name = name.rpartition(".")[0]
    raise ConfigError(
        f"the driver of a {type(connection).__qualname__} does not say how it marks parameters; pass paramstyle=, such "
        "as 'qmark' for ? or 'format' for %s."
    )


def _refuse_autocommit(connection: Any) -> None:
    is_sqlite = type(connection).__module__ == "sqlite3"
    if getattr(connection, "autocommit", False) is True or (is_sqlite and connection.isolation_level is None):
        raise ConfigError(
            "the connection commits by itself, so results and offsets cannot be one transaction; open it with "
            "autocommit off, which is DB-API's default."
        )
