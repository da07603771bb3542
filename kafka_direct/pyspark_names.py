"""What depends on PySpark's version: where its names are, since when, and what is said where one is missing.

No other file knows versions. Names load when they are first used: a DStream job needs nothing of `pyspark.sql`. Spark's
JVM classes are in `kafka_direct/dstream/jvm.py`; those that we use are the same from 3.5 to 4.3.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "kafka_direct"
DATA_SOURCES = "4.0"  # the first PySpark with data sources in Python

# The modules that a name may be in, and the PySpark that has it first. 3.5 has `pyspark.rdd` where 4.0 has
# `pyspark.core.rdd`.
_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "PipelinedRDD": ("3.5", ("pyspark.core.rdd", "pyspark.rdd")),
    **dict.fromkeys(
        (
            "DataSource",
            "DataSourceReader",
            "DataSourceStreamReader",
            "DataSourceArrowWriter",
            "DataSourceStreamWriter",
            "InputPartition",
            "WriterCommitMessage",
        ),
        (DATA_SOURCES, ("pyspark.sql.datasource",)),
    ),
    "DataSourceStreamArrowWriter": ("4.1", ("pyspark.sql.datasource",)),
    **dict.fromkeys(
        ("ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"),
        ("4.2", ("pyspark.sql.streaming.datasource",)),
    ),
}

# What a PySpark has for a name that it lacks: a class of these. 4.0 gives a query's writer Arrow batches if it is also
# a writer of DataFrames that takes them. What 4.2 asks a query's reader for is asked by no PySpark before it.
_STAND_INS: dict[str, tuple[str, ...]] = {
    "DataSourceStreamArrowWriter": ("DataSourceStreamWriter", "DataSourceArrowWriter"),
    **dict.fromkeys(("ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"), ()),
}


def tells_triggers() -> bool:
    """Whether Spark tells a query's source where a batch starts, and which trigger the query has: 4.2 and newer."""
    return find_spec("pyspark.sql.streaming.datasource") is not None


def utc_arrow_schema(schema: StructType) -> pa.Schema:
    """PySpark's Arrow schema for some columns, with times in UTC, which before 4.2 is the default."""
    to_arrow_schema = import_module("pyspark.sql.pandas.types").to_arrow_schema
    asked = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **asked)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    since, modules = _NAMES[name]
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    if name in _STAND_INS:
        bases = tuple(__getattr__(base) for base in _STAND_INS[name])
        return globals().setdefault(name, type(name, bases, {"__module__": __name__}))
    if since == DATA_SOURCES:
        raise ConfigError(_no_data_sources())
    raise ConfigError(f"this needs PySpark {since} or newer, which has {name}; PySpark is {_version()}.")


def explain_format() -> None:
    """Have `format("kafka_direct")` say why it is not there, on a PySpark without data sources in Python.

    Spark would look for a JAR, and advise to search for one. It can be told only in a program that has imported
    kafka_direct: such a PySpark loads no module of ours by itself. Another PySpark is not loaded here.
    """
    found = find_spec("pyspark")
    places = () if found is None else found.submodule_search_locations or ()
    if places and PathFinder.find_spec("pyspark.sql.datasource", [f"{place}/sql" for place in places]) is None:
        batch, stream = import_module("pyspark.sql.readwriter"), import_module("pyspark.sql.streaming.readwriter")
        for asked in (batch.DataFrameReader, batch.DataFrameWriter, stream.DataStreamReader, stream.DataStreamWriter):
            asked.format = _explained(asked.format)


def _explained(choose: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    @functools.wraps(choose)
    def format(self: Any, source: str) -> Any:  # noqa: A001  Spark's name
        if source.lower() == FORMAT:
            raise ConfigError(_no_data_sources())
        return choose(self, source)

    return format


def _no_data_sources() -> str:
    return (
        f"Python data sources begin with PySpark {DATA_SOURCES}, and this is PySpark {_version()}; upgrade it, "
        'or use createDirectStream or createRDD here, or Spark\'s own format("kafka").'
    )


def _version() -> str:
    return str(import_module("pyspark").__version__)
