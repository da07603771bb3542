"""The names of PySpark that depend on its version: where they are, and since when. No other file knows versions.

Names load when they are first used: a DStream job needs nothing of `pyspark.sql`. Spark's JVM classes, which depend on
the version too, are in `kafka_direct/dstream/jvm.py`.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyspark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# The modules that a name may be in, and the PySpark that has it first. 3.5 has `pyspark.rdd` where 4.0 has
# `pyspark.core.rdd`.
_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "PipelinedRDD": ("3.5", ("pyspark.core.rdd", "pyspark.rdd")),
    **dict.fromkeys(
        ("DataSource", "DataSourceReader", "DataSourceStreamReader", "InputPartition", "WriterCommitMessage"),
        ("4.0", ("pyspark.sql.datasource",)),
    ),
    **dict.fromkeys(("DataSourceArrowWriter", "DataSourceStreamWriter"), ("4.0", ("pyspark.sql.datasource",))),
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
    return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None


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
    raise ImportError(f"this needs PySpark {since} or newer, which has {name}; PySpark is {pyspark.__version__}.")
