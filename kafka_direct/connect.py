"""Spark Connect, where this process has no JVM of Spark's: what has no way there says what has (docs/connect.md)."""

from __future__ import annotations

import os
from typing import Any

from kafka_direct.errors import ConfigError

_MODE = "SPARK_CONNECT_MODE_ENABLED"  # PySpark sets it for a session, and for what a server runs


def is_connect(thing: Any) -> bool:
    """Whether it is one of Spark Connect's: a session, a DataFrame.

    >>> is_connect("orders")
    False
    """
    return type(thing).__module__.startswith("pyspark.sql.connect.")


def is_connect_mode() -> bool:
    """Whether PySpark gives this process sessions of Spark Connect."""
    return _MODE in os.environ


def refuse_connect(what: str, instead: str) -> ConfigError:
    """The error of a door that needs Spark's JVM.

    >>> print(refuse_connect("FileSink", "use writeStream."))
    FileSink needs Spark's JVM in its own process, and Spark Connect has it on the server; use writeStream.
    """
    return ConfigError(
        f"{what} needs Spark's JVM in its own process, and Spark Connect has it on the server; {instead}"
    )
