"""The examples in the docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import kafka_direct.offsets
from kafka_direct.offsets import OffsetRange, TopicPartition

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(kafka_direct.offsets.__path__, "kafka_direct.offsets.")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("public", [OffsetRange, TopicPartition])
def test_examples_of_public_classes_are_true(public):
    """Their path is the one that users import, so doctest does not find them in the module that defines them."""
    (found,) = doctest.DocTestFinder(exclude_empty=True).find(public, module=False, globs={public.__name__: public})

    assert doctest.DocTestRunner().run(found).failed == 0
    assert found.examples
