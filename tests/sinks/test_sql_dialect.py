"""Errors of real drivers: which of them say that another transaction came first."""

import sqlite3

import psycopg
import pymysql
import pytest

from kafka_direct.sinks.sql.dialect import came_first, is_taken


class DatabaseError(Exception):
    """As each driver has one."""


def sqlite(code):
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    return error


def psycopg2(code):
    error = DatabaseError("could not serialize access")
    error.pgcode = code
    return error


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.SerializationFailure("could not serialize access"),
        psycopg.errors.DeadlockDetected("deadlock detected"),
        psycopg2("40001"),
        DatabaseError("40001", "[40001] pyodbc"),
        pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock"),
        pymysql.err.OperationalError(1205, "Lock wait timeout exceeded"),
        pymysql.err.OperationalError(1020, "Record has changed since last read in table"),
        sqlite(sqlite3.SQLITE_BUSY),
        sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT),
        sqlite(sqlite3.SQLITE_LOCKED),
    ],
)
def test_another_transaction_came_first(error):
    """Then the same may be tried again."""
    assert came_first(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("40001"),
        ValueError(1213),
        psycopg.errors.UniqueViolation("duplicate key"),
        psycopg.OperationalError("the connection is lost"),
        psycopg2(None),
        DatabaseError(),
        pymysql.err.OperationalError(2013, "Lost connection"),
        pymysql.err.IntegrityError(1062, "Duplicate entry"),
        sqlite(sqlite3.SQLITE_FULL),
        sqlite3.IntegrityError("UNIQUE constraint failed"),
    ],
)
def test_another_error_is_an_error(error):
    """To try again would hide it."""
    assert not came_first(error)


def test_a_row_that_is_there_already():
    """Each driver has its own class of this name."""
    assert is_taken(pymysql.err.IntegrityError(1062, "Duplicate entry"))
    assert is_taken(psycopg.errors.UniqueViolation("duplicate key"))
    assert is_taken(sqlite3.IntegrityError("UNIQUE constraint failed"))
    assert not is_taken(sqlite3.OperationalError("disk full"))
