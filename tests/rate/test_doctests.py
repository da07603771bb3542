"""The examples in the docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import kafka_direct.rate

MODULES = sorted(module.name for module in pkgutil.walk_packages(kafka_direct.rate.__path__, "kafka_direct.rate."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_exports():
    """`__all__` is sorted, and is all that the package shows besides its modules."""
    # pytest rewrites the modules of a plugin's package, and leaves names that begin with @.
    shown = {name for name in vars(kafka_direct.rate) if not name.startswith(("_", "@"))}
    modules = {name.rpartition(".")[2] for name in MODULES}

    assert shown - modules == set(kafka_direct.rate.__all__)
    assert sorted(kafka_direct.rate.__all__) == kafka_direct.rate.__all__
