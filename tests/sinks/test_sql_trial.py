"""Whether a connection can roll back is seen by what it does, whatever it says of itself."""

import pickle
import sqlite3

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import OffsetRange
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.sql.store import SqlOffsetStore

BATCH = KafkaBatch((OffsetRange("t", 0, 0, 2),))


class Connection(sqlite3.Connection):
    """As other drivers have it: something called autocommit, which SQLite of this Python does not look at."""

    autocommit: object = False


class WithMethod(Connection):
    """PyMySQL, mysqlclient, pymssql: a method that sets it."""

    def autocommit(self, _value):
        raise AssertionError("this would change the connection")


class WithGetter(Connection):
    """mysqlclient's get_autocommit, and no word of it elsewhere."""

    def get_autocommit(self):
        return self.isolation_level is None


class WithNumber(Connection):
    """`autocommit = 1`."""

    autocommit = 1


class WithFlag(Connection):
    """psycopg, pyodbc."""

    autocommit = True


class NeverRollsBack(Connection):
    """A wrapper that takes rollback for granted, or a table whose engine has no transactions."""

    def rollback(self):
        self.commit()


@pytest.fixture
def path(tmp_path):
    with sqlite3.connect(tmp_path / "results.db") as connection:
        connection.execute("CREATE TABLE results (value TEXT)")
    return tmp_path / "results.db"


def store_of(path, factory, isolation_level=""):
    options = {"factory": factory, "isolation_level": isolation_level, "timeout": 30}
    return SqlOffsetStore(lambda: sqlite3.connect(path, **options), "orders", paramstyle="qmark")


def write(cursor):
    cursor.execute("INSERT INTO results VALUES ('a')")


@pytest.mark.parametrize("factory", [Connection, WithMethod, WithGetter, WithNumber, WithFlag])
def test_a_connection_that_commits_by_itself_is_refused(path, factory):
    """However it says so, or not at all; nothing is written, and a second try is refused as well."""
    store = store_of(path, factory, isolation_level=None)
    for use in (store.positions, lambda: store.claim("me"), store.positions):
        with pytest.raises(ConfigError, match=r"the connection commits by itself .* open it with autocommit off"):
            use()
    assert sqlite3.connect(path).execute("SELECT * FROM kafka_direct_offsets").fetchall() == []


def test_a_rollback_that_is_none_is_refused(path):
    """What it leaves is taken away."""
    with pytest.raises(ConfigError, match="commits by itself"):
        store_of(path, NeverRollsBack).claim("me")
    assert sqlite3.connect(path).execute("SELECT * FROM kafka_direct_offsets").fetchall() == []


@pytest.mark.parametrize("factory", [Connection, WithMethod, WithGetter, WithNumber, WithFlag])
def test_a_connection_that_has_transactions_is_taken(path, factory):
    """What it says of itself does not matter."""
    store = store_of(path, factory)

    assert store.save(store.claim("me"), BATCH, write)
    assert sqlite3.connect(path).execute("SELECT * FROM results").fetchall() == [("a",)]


def test_a_process_tries_once(path):
    """A batch costs no round trip more, and a copy of the store, as each task has one, is not tried again."""
    statements = []

    def connect():
        connection = sqlite3.connect(path)
        connection.set_trace_callback(statements.append)
        return connection

    store = SqlOffsetStore(connect, "orders")
    claim = store.claim("me")
    assert sum("INSERT INTO kafka_direct" in statement for statement in statements) == 2  # the trial's and the drivers'
    store.save(claim, BATCH, write)
    statements.clear()

    copy = SqlOffsetStore.revived(1, store.__reduce__()[1][2])
    copy._connect = connect
    assert copy.save(claim, KafkaBatch((OffsetRange("t", 0, 2, 3),)), write)
    words = [statement.split()[0] for statement in statements]
    assert words == ["SELECT", "BEGIN", "UPDATE", "INSERT", "SELECT", "COMMIT"]


def test_each_process_and_each_store_tries(path):
    """Another process may be given other connections: workers have an environment of their own."""
    store = store_of(path, Connection)
    store.claim("me")

    with pytest.raises(ConfigError, match="commits by itself"):
        store_of(path, Connection, isolation_level=None).claim("me")
    state = store.__reduce__()[1][2]
    assert pickle.loads(pickle.dumps(state)) == state
    assert SqlOffsetStore.revived(1, {**state, "id": None})._id != store._id  # of a checkpoint of before
