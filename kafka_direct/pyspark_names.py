"""The names of PySpark that depend on its version: where they are, and since when. No other file knows versions.

Names load when they are first used: a DStream job needs nothing of `pyspark.sql`. Spark's JVM classes, which depend on
the version too, are in `kafka_direct/dstream/jvm.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pyspark

# The modules that a name may be in, and the PySpark that has it first. 3.5 has `pyspark.rdd` where 4.0 has
# `pyspark.core.rdd`.
_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "PipelinedRDD": ("3.5", ("pyspark.core.rdd", "pyspark.rdd")),
    **dict.fromkeys(
        ("DataSource", "DataSourceReader", "DataSourceStreamReader", "InputPartition", "WriterCommitMessage"),
        ("4.0", ("pyspark.sql.datasource",)),
    ),
    **dict.fromkeys(
        ("DataSourceArrowWriter", "DataSourceStreamArrowWriter"),
        ("4.1", ("pyspark.sql.datasource",)),
    ),
    **dict.fromkeys(
        ("ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"),
        ("4.2", ("pyspark.sql.streaming.datasource",)),
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    since, modules = _NAMES[name]
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"this needs PySpark {since} or newer, which has {name}; PySpark is {pyspark.__version__}.")
