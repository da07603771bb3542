"""What the packages show is what their `__all__` lists; what is not needed is not loaded."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import kafka_direct

HEAVY = ("pyspark", "py4j", "confluent_kafka", "pyarrow", "click", "prometheus_client")


@pytest.mark.parametrize("name", ["kafka_direct", "kafka_direct.offsets", "kafka_direct.rate"])
def test_every_listed_name_is_there(name):
    """`__all__` is sorted, has no name twice, and each name can be imported."""
    package = importlib.import_module(name)

    assert package.__all__ == sorted(set(package.__all__))
    assert all(getattr(package, member) is not None for member in package.__all__)


@pytest.mark.parametrize("name", ["kafka_direct.offsets", "kafka_direct.rate"])
def test_nothing_else_is_shown(name):
    """Besides its modules a package shows what is listed and nothing that it happens to import."""
    package = importlib.import_module(name)
    # pytest rewrites the modules of a plugin's package, and leaves names that begin with @.
    shown = {member for member in vars(package) if not member.startswith(("_", "@"))}

    assert shown - {module.name for module in pkgutil.iter_modules(package.__path__)} == set(package.__all__)


def test_the_lazy_names_are_the_listed_ones():
    """What loads on first use, what type checkers see, what `dir` shows and what is listed are the same names."""
    tree = ast.parse(inspect.getsource(kafka_direct))
    for_types, _ = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.name: node.module for node in for_types.body for alias in node.names}

    assert typed == kafka_direct._HOMES
    assert sorted(kafka_direct._HOMES) == kafka_direct.__all__ == dir(kafka_direct)


def test_an_unknown_name_is_an_attribute_error():
    """A misspelt name fails as it does in any module."""
    with pytest.raises(AttributeError, match="createDirectSteam"):
        kafka_direct.createDirectSteam  # noqa: B018


def loaded_by(statement):
    """The heavy packages that a statement loads, in a process of its own."""
    code = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.pyspark("4.0")  # an older one is told of the format that it lacks
@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import kafka_direct", set()),
        ("from kafka_direct import KafkaDirectError", set()),
        ("import kafka_direct.rate", set()),
        ("from kafka_direct import OffsetRange, TopicPartition", set()),
        ("from kafka_direct.offsets import OffsetLog", set()),
        ("from kafka_direct import Fenced, OffsetsLost", set()),
        ("from kafka_direct import LagListener", {"pyspark", "py4j", "confluent_kafka", "pyarrow"}),
        ("from kafka_direct import KafkaMessage", {"pyspark", "py4j", "confluent_kafka", "pyarrow"}),
    ],
)
def test_nothing_is_loaded_that_is_not_needed(statement, allowed):
    """The package alone loads neither PySpark nor a Kafka client; the core never does."""
    assert loaded_by(statement) <= allowed
