"""What tests know of PySpark's version: `@pytest.mark.pyspark("4.0")` is for what an older PySpark does not have."""

from __future__ import annotations

import pyspark
import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("pyspark"):
        if _version(pyspark.__version__) < _version(mark.args[0]):
            pytest.skip(f"this begins with PySpark {mark.args[0]}, and this is {pyspark.__version__}")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(".")[:2])
