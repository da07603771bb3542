"""`Trial`: what a connection and the table really do when a transaction is rolled back. Attributes may say anything.

Once per process and store a row is inserted and rolled back. If it is still there, results and offsets cannot be one
transaction: the connection commits by itself, or the table's engine has no transactions.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import uuid4

from kafka_direct.errors import ConfigError
from kafka_direct.sinks.progress import Progress

from .table import KEY

if TYPE_CHECKING:
    from .session import Session

# Of MySQL and MariaDB: the warning "Some non-transactional changed tables couldn't be rolled back", and the error "The
# storage engine for the table doesn't support SAVEPOINT".
_NOT_ROLLED_BACK, _NO_SAVEPOINT = 1196, 1178


class Trial:
    """The trial of one store in this process. Passed once, it is not repeated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_passed = False
        self._is_written = False

    def stand(self, session: Session) -> None:
        """Insert a row, roll back, look.

        Raises:
            ConfigError: the row is still there.
        """
        if self._is_passed:
            return
        with self._lock:
            if self._is_passed:
                return
            # A key of its own: it neither waits for other rows nor is taken for one.
            key = (session.output, uuid4().hex, -2)
            session.insert(key, Progress(0, 0), 0)
            session.connection.rollback()
            session.execute(f"SELECT epoch FROM {session.table.name} WHERE {KEY}", *key)
            is_kept = session.cursor.fetchone() is not None
            session.connection.rollback()
            if is_kept:
                session.execute(f"DELETE FROM {session.table.name} WHERE {KEY}", *key)
                session.connection.commit()
                raise _kept(session)
            self._is_passed = True

    def stand_write(self, session: Session) -> None:
        """After the first `write` of a process: see whether all that it changed can be undone.

        Raises:
            ConfigError: it has changed a table without transactions.
        """
        if self._is_written:
            return
        if session.speaks_mysql() and _cannot_be_undone(session):
            raise ConfigError(
                f"the function that writes output {session.output} has changed a table without transactions, so what a "
                "failed batch wrote stays there and is written again; run ALTER TABLE … ENGINE=InnoDB for its tables, "
                "and take out what this batch has written."
            )
        self._is_written = True


@lru_cache(maxsize=64)
def trial_of(_store_id: str) -> Trial:
    """The trial of a store in this process, however many copies of the store there are: a task has its own."""
    return Trial()


def _kept(session: Session) -> ConfigError:
    """Why a row may stay although it was rolled back."""
    table, engine = session.table.name, _engine(session)
    if engine:
        return ConfigError(
            f"table {table} is of the engine {engine}, which has no transactions, so results and offsets cannot be one "
            f"transaction; run ALTER TABLE {table} ENGINE=InnoDB, and see that the tables of results have it too."
        )
    return ConfigError(
        "the connection commits by itself (a row that was rolled back is still there), so results and offsets cannot "
        "be one transaction; open it with autocommit off, which is DB-API's default."
    )


def _engine(session: Session) -> str:
    """The engine of the table, if it is MariaDB's or MySQL's and has no transactions."""
    if not session.speaks_mysql():
        return ""
    schema, _, table = session.table.name.rpartition(".")
    safe = "SELECT engine FROM information_schema.engines WHERE transactions = 'YES'"
    where = f"table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ? AND engine NOT IN ({safe})"
    session.execute(
        f"SELECT engine FROM information_schema.tables WHERE {where}",
        schema,
        table,
    )
    row = session.cursor.fetchone()
    return "" if row is None else str(row[0])


def _cannot_be_undone(session: Session) -> bool:
    """Whether this transaction has changed a table without transactions, on MariaDB or MySQL.

    They warn of temporary tables too, so where a session has made tables it is not known.
    """
    if not _is_warned(session):
        return False
    made = "Variable_name IN ('Com_create_table', 'Com_create_temporary_table')"
    session.execute(f"SHOW SESSION STATUS WHERE {made}")
    return sum(int(count) for _, count in session.cursor.fetchall()) == 0


def _is_warned(session: Session) -> bool:
    """Go back to where the transaction stands, which undoes nothing, and see whether the server says that it could not.

    Aria knows no savepoints at all. Where an engine with transactions has none either, nothing is known.
    """
    try:
        session.execute("SAVEPOINT kafka_direct")
    except Exception as error:
        if error.args[:1] != (_NO_SAVEPOINT,):
            raise
        session.execute(
            "SELECT COUNT(*) FROM information_schema.engines WHERE transactions = 'YES' AND savepoints = 'NO'"
        )
        return int(session.cursor.fetchone()[0]) == 0
    session.execute("ROLLBACK TO SAVEPOINT kafka_direct")
    session.execute("SHOW WARNINGS")
    return any(int(code) == _NOT_ROLLED_BACK for _, code, *_ in session.cursor.fetchall())
