"""`SqlOffsetStore`: how far an output has come, in a table beside the results, moved in the same transaction as they.

Any DB-API 2.0 connection will do, but for Oracle's, which has no empty text; no driver is imported here. One row per
partition, and one (`HEAD`) that counts the drivers: each takes the stream over with the next epoch, and a row moves
only under the newest. So of two drivers, or of one and its zombie, the newer one works and the older one is told.

Rule: the table is changed by compare-and-set alone. A row that another transaction holds is waited for by the database,
and what it has become is judged anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced
from kafka_direct.offsets.model.topic_partition import TopicPartition
from kafka_direct.sinks.progress import Advance, Progress, plan_advance, plan_start

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafka_direct.offsets.model.loss import Loss
    from kafka_direct.offsets.model.offset_range import OffsetRange
    from kafka_direct.sinks.progress import Step

Connect = Callable[[], Any]
Write = Callable[[Any], object]

TABLE = "kafka_direct_offsets"
HEAD = ("", -1)  # topic and partition of no Kafka

# How often a transaction is begun again because the rows moved under it: once for a copy of the same task.
ATTEMPTS = 5

# By position in each style: drivers of the named one take a sequence too.
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":{}"}

_TABLE_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one driver to move a stream's rows, until another driver takes it over."""

    epoch: int
    positions: dict[TopicPartition, int]


class SqlOffsetStore:
    """The progress of the output `name`, in a table of any database.

    `connect` gives a new connection each time, with autocommit off (DB-API's default). The table is made at the first
    use; `schema` is the statement, for databases where that is somebody else's work.
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
            "epoch BIGINT NOT NULL, owner VARCHAR(200), PRIMARY KEY (stream, topic, partition_id))"
        )

    def load(self) -> dict[TopicPartition, int]:
        """The next offset of each partition, for `fromOffsets`; empty if nothing was ever saved."""
        with self._session() as session:
            session.require_table()
            return {p: progress.next for p, progress in session.rows().items()}

    def claim(self, owner: str) -> Claim:
        """Take the stream over from whoever has it; returns when no transaction of theirs can come any more.

        `owner` is what the other one is told.
        """
        with self._session() as session:
            session.require_table()
            epoch = session.take_over(owner[:200])
            positions = {p: progress.next for p, progress in session.rows().items()}
            session.commit()
        return Claim(epoch, positions)

    def note_start(self, claim: Claim, ranges: Collection[OffsetRange]) -> None:
        """Note where the output begins, in partitions that it knows nothing of yet. The driver does so for each batch.

        Raises:
            Fenced: another driver has taken over.
        """
        with self._session() as session:
            self._note_start(session, claim, ranges)

    def is_saved(self, claim: Claim, ranges: Collection[OffsetRange], losses: Collection[Loss] = ()) -> bool:
        """Whether nothing is left to save: the output has these ranges, or they have no records and no loss.

        Notes where the output begins.

        Raises:
            Fenced, OutOfOrder, ConfigError: as `save`.
        """
        with self._session() as session:
            self._note_start(session, claim, ranges)
            return not session.plan(claim, ranges, losses).steps

    def save(self, claim: Claim, ranges: Collection[OffsetRange], write: Write, losses: Collection[Loss] = ()) -> bool:
        """Call `write(cursor)` and note the ranges as saved, in one transaction. False, and no call, if they are.

        Raises:
            Fenced: another driver has taken over, or has saved a part of the ranges.
            OutOfOrder: the batch before is not saved.
            ConfigError: the ranges begin before the output does, or the connection commits by itself.
        """
        with self._session() as session:
            for _ in range(ATTEMPTS):
                advance = session.plan(claim, ranges, losses)
                if session.take(claim, advance.steps):
                    if advance.is_new:
                        session.call(write)
                        session.require_taken(advance.steps)
                    session.commit()
                    return advance.is_new
                session.rollback()
        raise self._restless()

    def _note_start(self, session: _Session, claim: Claim, ranges: Collection[OffsetRange]) -> None:
        for _ in range(ATTEMPTS):
            steps = plan_start(ranges, session.owned_rows(claim, ranges))
            if not steps:
                return
            if session.take(claim, steps):
                session.commit()
                return
            session.rollback()
        raise self._restless()

    def _restless(self) -> Fenced:
        return Fenced(
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
                session.rollback()  # of nothing, if it was committed


class _Session:
    """One connection, and the statements that this module needs."""

    def __init__(self, store: SqlOffsetStore, connection: Any, paramstyle: str) -> None:
        _refuse_autocommit(connection)
        self._store = store
        self._connection = connection
        self._cursor = connection.cursor()
        self._placeholder = _PLACEHOLDERS[paramstyle]

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def call(self, write: Write) -> None:
        with closing(self._connection.cursor()) as cursor:
            write(cursor)

    def require_table(self) -> None:
        """Make the table if it is not there. Looking first: a user of the database may be allowed no more."""
        try:
            self._select_head()
        except Exception:  # noqa: BLE001  each driver has errors of its own
            self.rollback()
            try:
                self._cursor.execute(self._store.schema)
                self.commit()
            except Exception:  # noqa: BLE001
                self.rollback()
                self._select_head()  # somebody else has made it meanwhile; else this says what is wrong
        self.rollback()  # ends what the look began

    def rows(self, only: Collection[TopicPartition] = ()) -> dict[TopicPartition, Progress]:
        return {partition: progress for partition, (progress, _) in self._select(only).items()}

    def take_over(self, owner: str) -> int:
        change = "epoch = epoch + 1, owner = ?"
        if not self._update_head(change, owner):
            try:
                self._insert(HEAD, Progress(0, 0), 0)
            except Exception:
                self.rollback()  # of two drivers that come first, one waits here for the other, and comes second
                if not self._update_head(change, owner):
                    raise
            else:
                self._update_head(change, owner)
        epoch, _ = self._select_head()
        # Waits for every transaction of the driver before, so what is read next is final.
        self._execute(f"UPDATE {self._store.table} SET epoch = ? WHERE stream = ?", epoch, self._store.name)
        return int(epoch)

    def owned_rows(self, claim: Claim, ranges: Collection[OffsetRange]) -> dict[TopicPartition, Progress]:
        found = self._select([range_.topicPartition() for range_ in ranges])
        if any(epoch != claim.epoch for _, epoch in found.values()):
            raise self._fenced(claim)
        return {partition: progress for partition, (progress, _) in found.items()}

    def plan(self, claim: Claim, ranges: Collection[OffsetRange], losses: Collection[Loss]) -> Advance:
        output = f"output {self._store.name} in table {self._store.table}"
        return plan_advance(ranges, self.owned_rows(claim, ranges), output=output, losses=losses)

    def take(self, claim: Claim, steps: Collection[Step]) -> bool:
        """Move the rows. False if one is not where it was: another transaction came first."""
        # Holds the head, by a change: MySQL's drivers do not count a row that stays what it was.
        change, is_new = "next_offset = next_offset + 1", any(step.before is None for step in steps)
        if is_new and not self._update_head(change, epoch=claim.epoch):
            raise self._fenced(claim)
        for step in steps:
            partition = step.topic_partition
            if step.before is not None:
                if not self._move(claim, step):
                    return False
            elif self._select([partition]):  # looked for again: whoever adds a row holds the head until its commit
                return False
            else:
                self._insert((partition.topic, partition.partition), step.after, claim.epoch)
        return True

    def require_taken(self, steps: Collection[Step]) -> None:
        """Refuse to commit what has lost its offsets: `write` has rolled back, or has hidden an error.

        After an error PostgreSQL answers a commit with a rollback, and drivers do not say so.
        """
        found = self.rows([step.topic_partition for step in steps])
        if any(found.get(step.topic_partition) != step.after for step in steps):
            raise ConfigError(
                f"the function that writes output {self._store.name} has rolled its transaction back; let it raise "
                "what goes wrong, and neither commit nor roll back."
            )

    def _move(self, claim: Claim, step: Step) -> bool:
        partition, after = step.topic_partition, step.after
        moved = self._execute(
            f"UPDATE {self._store.table} SET first_offset = ?, next_offset = ? WHERE stream = ? AND topic = ? AND "
            "partition_id = ? AND next_offset = ? AND epoch = ?",
            *(after.first, after.next, self._store.name, partition.topic, partition.partition, step.before),
            claim.epoch,
        )
        return moved == 1

    def _select(self, only: Collection[TopicPartition]) -> dict[TopicPartition, tuple[Progress, int]]:
        text = "SELECT topic, partition_id, first_offset, next_offset, epoch"
        where = "stream = ? AND partition_id >= 0"
        values: list[Any] = [self._store.name]
        if len(only) == 1:  # a task asks for its own
            (partition,) = only
            where, values = (
                f"{where} AND topic = ? AND partition_id = ?",
                [*values, partition.topic, partition.partition],
            )
        self._execute(f"{text} FROM {self._store.table} WHERE {where}", *values)
        return {
            TopicPartition(topic, int(partition)): (Progress(int(first), int(next_)), int(epoch))
            for topic, partition, first, next_, epoch in self._cursor.fetchall()
        }

    def _select_head(self) -> tuple[int, str]:
        self._execute(
            f"SELECT epoch, owner FROM {self._store.table} WHERE stream = ? AND topic = ? AND partition_id = ?",
            *(self._store.name, *HEAD),
        )
        head: tuple[int, str] | None = self._cursor.fetchone()
        return (0, "") if head is None else head

    def _update_head(self, change: str, *values: Any, epoch: int | None = None) -> bool:
        where = "stream = ? AND topic = ? AND partition_id = ?"
        head: list[Any] = [self._store.name, *HEAD]
        if epoch is not None:
            where, head = f"{where} AND epoch = ?", [*head, epoch]
        return self._execute(f"UPDATE {self._store.table} SET {change} WHERE {where}", *values, *head) == 1

    def _insert(self, place: tuple[str, int], progress: Progress, epoch: int) -> None:
        self._execute(
            f"INSERT INTO {self._store.table} (stream, topic, partition_id, first_offset, next_offset, epoch) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            *(self._store.name, *place, progress.first, progress.next, epoch),
        )

    def _fenced(self, claim: Claim) -> Fenced:
        _, owner = self._select_head()
        return Fenced(
            f"output {self._store.name} in table {self._store.table} belongs to another driver now, {owner}, which "
            "started after this one; this one must stop: run one driver per output.",
            epoch=claim.epoch,
            owner=owner,
        )

    def _execute(self, statement: str, *values: Any) -> int:
        parts = statement.split("?")  # no text of ours holds another one
        text = "".join(part + self._placeholder.format(n) for n, part in enumerate(parts[:-1], 1)) + parts[-1]
        self._cursor.execute(text, values)
        return int(self._cursor.rowcount)


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
