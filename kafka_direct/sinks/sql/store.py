"""`SqlOffsetStore`: how far an output has come, in a table beside the results, moved in the transaction of the results.

Any DB-API 2.0 connection will do, but for Oracle's, which has no empty text; no driver is imported here. The table has
one row per partition, and one row for the drivers of the output: each driver claims the output with the next epoch, and
a row moves only under the newest epoch. So of two drivers the newer one works and the older one is fenced.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced
from kafka_direct.sinks.output import Claim
from kafka_direct.sinks.progress import Advance, find_unnoted, plan_start, saved_positions

from .dialect import PLACEHOLDERS, CameFirst, came_first, find_paramstyle
from .drivers import NO_LOG
from .session import Session
from .table import Table
from .trial import trial_of

if TYPE_CHECKING:
    from kafka_direct.offsets import LogOwner, SavedPositions
    from kafka_direct.sinks.batch import KafkaBatch

    from .rows import Rows
    from .trial import Trial

    T = TypeVar("T")

Connect = Callable[[], Any]
Write = Callable[[Any], object]

TABLE = "kafka_direct_offsets"

# A copy of the same task, or a retry, can move a row between look and change: once or twice. Strict isolation also ends
# transactions that only came near each other, so some more. More than that is another driver.
ATTEMPTS = 10
PATIENCE = 60.0  # seconds, for databases that wait long for a lock

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
        if paramstyle is not None and paramstyle not in PLACEHOLDERS:
            raise ConfigError(f"paramstyle={paramstyle!r} is none of DB-API's: {', '.join(PLACEHOLDERS)}.")
        self._connect = connect
        self.name = name
        self._table = Table(table)
        self._paramstyle = paramstyle
        self._id = uuid4().hex

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> SqlOffsetStore:
        store = cls.__new__(cls)
        own_id = state.get("id") or uuid4().hex  # checkpoints of before have none
        table = Table(state["table"])
        vars(store).update(name=state["name"], _table=table, _paramstyle=state["paramstyle"], _id=own_id)
        return store

    def __reduce__(self) -> tuple[Any, ...]:
        plain = {"name": self.name, "table": self.table, "paramstyle": self._paramstyle, "id": self._id}
        # The user's function comes later: it may be a method of an object that holds the sink of this store.
        return persisted(self, "sql-store", plain, later={"_connect": self._connect})

    @property
    def table(self) -> str:
        return self._table.name

    @property
    def connect(self) -> Connect:
        return self._connect

    @property
    def schema(self) -> str:
        """The statement that makes the table. On MariaDB and MySQL the texts need a binary collation besides."""
        return self._table.schema()

    @property
    def upgrades(self) -> list[str]:
        """The statements that bring a table of an earlier version up to date."""
        return list(self._table.upgrades.values())

    def positions(self) -> SavedPositions:
        """The next offset of each partition, for `fromOffsets`; empty if nothing was ever saved."""

        def read(session: Session) -> SavedPositions:
            return saved_positions({partition: progress for partition, (progress, _) in session.select().items()})

        return self._transact(read, needs_table=True)

    def claim(self, owner: str, log: LogOwner | None = None) -> Claim:
        """Take the output over from any other driver. No transaction of that driver can be committed after this.

        `owner` describes this driver to the one that it fences. Of two drivers of one offset log, `log`, the one that
        owns the log wins: else each could end the other.

        Raises:
            Fenced: a driver with a newer claim to the same log has the output.
        """

        def add(session: Session) -> Claim:
            claim = Claim(session.drivers.add(owner[:200], NO_LOG if log is None else log))
            session.connection.commit()
            return claim

        return self._transact(add, needs_table=True)

    def save_start(self, claim: Claim, batch: KafkaBatch) -> None:
        """Save where the output begins in partitions that are new to it. The driver does so before each batch.

        Raises:
            Fenced: another driver has taken over.
        """
        self._transact(lambda session: _save_start(session, claim, batch))

    def is_saved(self, claim: Claim, batch: KafkaBatch) -> bool:
        """Whether nothing is left to save: the output has the batch, or it has no records and no loss.

        Saves where the output begins.

        Raises:
            Fenced, OutOfOrder, ConfigError: as `save`.
        """

        def look(session: Session) -> bool:
            _save_start(session, claim, batch)
            return not session.plan(claim, batch).steps

        return self._transact(look)

    def save(self, claim: Claim, batch: KafkaBatch, write: Write, rows: Rows | None = None) -> bool:
        """Call `write(cursor)` and save the progress, in one transaction. False, and no call, if the batch is saved.

        If another transaction came first, all is done again, `write` too. If `rows`, which it writes, cannot be read
        again, the database's error comes out.

        Raises:
            Fenced: another driver has taken over, or has saved a part of the batch.
            OutOfOrder: the batch before is not saved.
            ConfigError: the batch begins before the output does, or there are no transactions.
        """

        def save(session: Session) -> bool:
            def write_in(session: Session) -> None:
                with closing(session.connection.cursor()) as cursor:
                    write(cursor)
                self._trial().stand_write(session)

            advance = session.plan(claim, batch)
            if advance.is_new and rows is not None:
                rows.read_ahead()  # before `_advance` takes the lock of the partition's row
            return _advance(session, claim, advance, write_in)

        return self._transact(save, can_repeat=(lambda: True) if rows is None else rows.can_repeat)

    def _transact(
        self, run: Callable[[Session], T], *, needs_table: bool = False, can_repeat: Callable[[], bool] = lambda: True
    ) -> T:
        """Run something in a transaction; again, if another transaction came first."""
        with self._session() as session:
            if needs_table:
                self._table.require(session)
            give_up = time.monotonic() + PATIENCE
            for attempt in range(ATTEMPTS):
                time.sleep(_pause(attempt))
                try:
                    self._trial().stand(session)
                    return run(session)
                except CameFirst:  # before anything was written
                    pass
                except Exception as error:
                    is_last = attempt == ATTEMPTS - 1 or time.monotonic() > give_up
                    if is_last or not came_first(error) or not can_repeat():
                        raise
                finally:
                    session.end()
        raise Fenced(
            f"output {self.name} in table {self.table} moved {ATTEMPTS} times while one batch was to be saved; run one "
            "driver per output."
        )

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with closing(self._connect()) as connection:
            paramstyle = self._paramstyle or find_paramstyle(connection)
            yield Session(connection, self._table, self.name, paramstyle)

    def _trial(self) -> Trial:
        return trial_of(self._id)


def _pause(attempt: int) -> float:
    """Seconds before an attempt. No two are equal: transactions that met once shall not meet again."""
    return 0.0 if attempt == 0 else random.uniform(0, min(0.5, 0.01 * 2**attempt))  # noqa: S311


def _save_start(session: Session, claim: Claim, batch: KafkaBatch) -> None:
    log, name = batch.beginnings(), session.output
    begun, progress = [] if log is None else log.begun(name), session.owned_progress(claim, batch)
    steps = plan_start(batch, progress, begun, output=session.title)
    if log is not None and (starts := find_unnoted(batch, progress, begun, steps)):
        log.begin(name, starts)  # first: a database may forget
    _advance(session, claim, Advance(steps, is_new=False), write=lambda _: None)


def _advance(session: Session, claim: Claim, advance: Advance, write: Callable[[Session], None]) -> bool:
    """Do what a plan of the present rows says, and commit. Whether `write` was called."""
    session.move(claim, advance.steps)
    if advance.is_new:
        write(session)
        session.require_moved(claim, advance.steps)
    if advance.steps:
        session.connection.commit()
    return advance.is_new
