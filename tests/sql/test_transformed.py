"""`kafka_direct.source`: what it registers, where Spark's Python has this package and where it has not."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.types import BinaryType, IntegerType, StructType

import kafka_direct

pytestmark = pytest.mark.pyspark("4.0")

READ = """
import pickle, sys
{before}
kind = pickle.loads(sys.stdin.buffer.read())
source = kind({{"kafka.bootstrap.servers": "a:1", "subscribe": "t"}})
print(kind.name(), source.schema().simpleString())
print(type(source.reader(source.schema())).__name__)
"""


def registered():
    """The class that a session is given to register, as it goes to Spark's process."""
    kinds = []
    session = SimpleNamespace(dataSource=SimpleNamespace(register=kinds.append))
    taken, given = StructType().add("value", BinaryType()), StructType().add("n", IntegerType())
    name = kafka_direct.source(transform=lambda batch: batch, schema=given, columns=taken, spark=session)
    return name, dumps(kinds[0])


def read(pickled, before=""):
    command = [sys.executable, "-c", READ.format(before=before)]
    return subprocess.run(command, input=pickled, capture_output=True, check=False)


def test_it_reads_where_the_package_is():
    """What is registered becomes a reader in another process."""
    name, pickled = registered()

    assert read(pickled).stdout.decode().split() == [name, "struct<n:int>", "KafkaBatchReader"]


def test_it_says_that_the_package_is_missing():
    """Where Spark's Python lacks the package, one sentence says so, and it is not an error of pickle."""
    _, pickled = registered()

    done = read(pickled, "sys.modules['kafka_direct'] = None")

    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("ImportError: kafka_direct.source was called with kafka-direct 0."), done.stderr
    assert "the Python of Spark's driver cannot read by it (" in last
    assert last.endswith("with PYSPARK_PYTHON set to a Python that has it.")
