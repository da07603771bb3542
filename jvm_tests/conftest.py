"""The ground of the differential tests: a session with both sources, and a real Kafka."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kafka_direct.testing import pytest_plugin

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing


def pytest_configure(config):
    if not config.pluginmanager.is_registered(pytest_plugin):
        config.pluginmanager.register(pytest_plugin)


@pytest.fixture(scope="session")
def session():
    """A SparkSession with both sources."""
    from connector import spark_session

    started = spark_session()
    yield started
    started.stop()
