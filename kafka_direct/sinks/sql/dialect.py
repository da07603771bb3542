"""How a DB-API driver speaks: the marks of its parameters, and the errors that mean "another transaction came first".

No driver is imported here. PEP 249 gives the classes of errors, the drivers themselves the codes.
"""

from __future__ import annotations

import sys
from typing import Any

from kafka_direct.errors import ConfigError

# By position in each style: drivers of the named one take a sequence too.
PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}", "named": ":{}"}

# A serialization failure and a deadlock, in standard SQL and in PostgreSQL.
_SQLSTATES = {"40001", "40P01"}
# MySQL and MariaDB: deadlock, a lock waited for in vain, a record that has changed since the snapshot.
_MYSQL_CODES = {1213, 1205, 1020}
# SQLite: another connection writes, or another statement of this one.
_SQLITE_BUSY, _SQLITE_LOCKED = 5, 6


class CameFirst(Exception):
    """Another transaction has moved a row between look and change: look again."""


def find_paramstyle(connection: Any) -> str:
    """The way the driver of a connection marks parameters, which its module says.

    >>> import sqlite3
    >>> find_paramstyle(sqlite3.connect(":memory:"))
    'qmark'
    """
    name = type(connection).__module__
    while name:
        style = getattr(sys.modules.get(name), "paramstyle", None)
        if style in PLACEHOLDERS:
            return str(style)
        name = name.rpartition(".")[0]
    raise ConfigError(
        f"the driver of a {type(connection).__qualname__} does not say how it marks parameters; pass paramstyle=, such "
        "as 'qmark' for ? or 'format' for %s."
    )


def came_first(error: BaseException) -> bool:
    """Whether an error says that another transaction came first, so that this one may be tried again."""
    if not _is_of("DatabaseError", error):
        return False
    first = error.args[0] if error.args else None
    states = {getattr(error, name, None) for name in ("sqlstate", "pgcode")} | ({first} if _is_text(first) else set())
    busy = getattr(error, "sqlite_errorcode", 0) & 0xFF
    codes = {first} if isinstance(first, int) else set()
    return bool(states & _SQLSTATES or codes & _MYSQL_CODES) or busy in {_SQLITE_BUSY, _SQLITE_LOCKED}


def is_taken(error: BaseException) -> bool:
    """Whether an error says that a row with this key is there already."""
    return _is_of("IntegrityError", error)


def _is_of(name: str, error: BaseException) -> bool:
    """Whether an error is of a class of PEP 249: each driver has its own, of the same names."""
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _is_text(value: object) -> bool:
    return isinstance(value, str)
