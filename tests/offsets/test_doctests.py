"""The examples in the docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import kafka_direct.offsets

MODULES = sorted(module.name for module in pkgutil.iter_modules(kafka_direct.offsets.__path__, "kafka_direct.offsets."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0
