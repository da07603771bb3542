"""What depends on PySpark's version is known in one file."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kafka_direct import pyspark_names
from kafka_direct.errors import ConfigError

ROOT = Path(__file__).parent.parent
VERSIONED = ("pyspark.core", "pyspark.rdd", "pyspark.sql.datasource", "pyspark.sql.streaming.datasource")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_no_other_file_names_what_moves():
    """A new PySpark touches this file alone."""
    files = [path for path in (ROOT / "kafka_direct").rglob("*.py") if path.name != "pyspark_names.py"]

    assert len(files) > 100
    assert [str(path) for path in files for module in imports(path) if module.startswith(VERSIONED)] == []


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.pyspark(since)) for name, (since, _) in pyspark_names._NAMES.items()]
)
def test_each_name_is_there(name):
    """In the PySpark that the tests run on, if it has begun."""
    assert getattr(pyspark_names, name).__name__ == name


def test_a_name_that_this_pyspark_lacks(monkeypatch):
    """The error says which PySpark has it."""
    monkeypatch.setitem(pyspark_names._NAMES, "Later", ("9.9", ("pyspark.sql.later",)))

    with pytest.raises(ConfigError, match=r"needs PySpark 9\.9 or newer, which has Later; PySpark is \d"):
        pyspark_names.Later  # noqa: B018


def test_an_unknown_name_is_an_attribute_error():
    """As in any module."""
    with pytest.raises(AttributeError, match="Nothing"):
        pyspark_names.Nothing  # noqa: B018


FORMATS = """
import kafka_direct
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
for asked in (DataFrameReader, DataFrameWriter, DataStreamReader, DataStreamWriter):
    try:
        asked.format(asked.__new__(asked), "Kafka_Direct")
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_format_says_what_pyspark_lacks():
    """Before 4.0 each of the four ways to ask for the format ends in our sentence; since then they are Spark's own."""
    done = subprocess.run([sys.executable, "-c", FORMATS], capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    ours = [
        line for line in told if line.startswith("ConfigError Python data sources begin with PySpark 4.0, and this")
    ]

    assert len(told) == 4  # nothing is asked of a reader without a JVM
    assert len(ours) == (4 if find_spec("pyspark.sql.datasource") is None else 0)


@pytest.mark.pyspark("4.0")
def test_a_name_with_a_stand_in(monkeypatch):
    """An older PySpark has a class of ours for it, always the same one, of what it does have."""
    monkeypatch.setitem(pyspark_names._NAMES, "DataSourceStreamArrowWriter", ("9.9", ("pyspark.sql.later",)))
    monkeypatch.setitem(pyspark_names._STAND_INS, "Later", ())
    monkeypatch.setitem(pyspark_names._NAMES, "Later", ("9.9", ("pyspark.sql.later",)))
    made = pyspark_names.DataSourceStreamArrowWriter
    try:
        assert [base.__name__ for base in made.__bases__] == ["DataSourceStreamWriter", "DataSourceArrowWriter"]
        assert pyspark_names.DataSourceStreamArrowWriter is made
        assert pyspark_names.Later is pyspark_names.Later
    finally:
        for name in ("DataSourceStreamArrowWriter", "Later"):
            vars(pyspark_names).pop(name, None)
