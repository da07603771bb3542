"""Databases for tests of the SQL sink: three servers, each as it is and with its strictest isolation."""

import sqlite3

import psycopg
import pymysql

from kafka_direct.offsets import OffsetRange
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.sql.store import SqlOffsetStore


class Database:
    """An empty database with a table of results, as a test and its workers see it."""

    def __init__(self, connect, mark, paramstyle=None):
        self.connect, self.mark, self.paramstyle = connect, mark, paramstyle
        self.run("CREATE TABLE results (value VARCHAR(100))")

    def run(self, statement):
        connection = self.connect()
        cursor = connection.cursor()
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else []
        connection.commit()
        connection.close()
        return list(rows)

    def results(self):
        return sorted(value for (value,) in self.run("SELECT value FROM results"))

    def insert(self):
        """The function for `SqlSink.save`."""
        statement = f"INSERT INTO results VALUES ({self.mark})"

        def insert(cursor, rows):
            for _, value in rows:
                cursor.execute(statement, (value,))

        return insert

    def write(self, *values):
        """The function for `SqlOffsetStore.save`."""
        insert = self.insert()
        return lambda cursor: insert(cursor, [(None, value) for value in values])

    def store(self, name="orders", connect=None):
        return SqlOffsetStore(connect or self.connect, name, paramstyle=self.paramstyle)


class _BegunCursor(sqlite3.Cursor):
    def execute(self, *arguments):
        if not self.connection.in_transaction:
            super().execute("BEGIN")
        return super().execute(*arguments)


class BegunConnection(sqlite3.Connection):
    """SQLite as DB-API means it, and as Python 3.12 has it with autocommit=False: a look begins the transaction."""

    def cursor(self, factory=_BegunCursor):
        return super().cursor(factory)


SERVERS = ("sqlite", "postgres", "mariadb")
STRICT = ("sqlite-begun", "postgres-serializable", "mariadb-serializable", "mariadb-snapshot")


def database(request, tmp_path, server):
    """A new database of a server; what stands behind the dash is the isolation."""
    server, _, isolation = server.partition("-")
    makers = {"sqlite": _sqlite, "postgres": _postgres, "mariadb": _mariadb}
    given = tmp_path if server == "sqlite" else request.getfixturevalue(server).new_database()
    return makers[server](given, isolation)


# What connects is written into pickles whole: workers do not have this file.


def _sqlite(folder, isolation):
    path, options = str(folder / "results.db"), {"factory": BegunConnection} if isolation else {}

    def connect():
        return sqlite3.connect(path, timeout=60, **options)

    return Database(connect, "?", "qmark")


def _postgres(address, isolation):
    level = psycopg.IsolationLevel.SERIALIZABLE if isolation else None

    def connect():
        connection = psycopg.connect(address)
        connection.isolation_level = level
        return connection

    return Database(connect, "%s")


def _mariadb(address, isolation):
    setting = {
        "": "",
        "serializable": "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "snapshot": "SET SESSION innodb_snapshot_isolation = ON",
    }[isolation]

    def connect():
        return pymysql.connect(**address, init_command=setting or None)

    return Database(connect, "%s")


def batch(start, until, partition=0, topic="t"):
    """A batch of one range."""
    return KafkaBatch((OffsetRange(topic, partition, start, until),))
