"""What is found wrong with the Python that workers are to take."""

from __future__ import annotations

import doctest
import sys
from types import SimpleNamespace

import pytest

from kafka_direct.dstream import worker_python
from kafka_direct.errors import ConfigError


def test_examples():
    """Every doctest gives what it shows."""
    assert doctest.testmod(worker_python).failed == 0


def test_a_program_that_is_not_there():
    """The PATH has no such Python."""
    assert worker_python._fault(None, ()) == "which is not there"


def test_a_program_that_does_not_answer():
    """What cannot be known is left to the tasks."""
    assert worker_python._fault("/bin/false", ()) is None


def test_the_drivers_own_python():
    """It has the package, and the driver's release of it."""
    assert worker_python._fault(sys.executable, ()) is None


def test_files_that_were_added_are_looked_at(tmp_path, monkeypatch):
    """What addPyFile brought is found where a worker finds it, and its release too."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # a worker looks in its folder first
    for name in ("kafka_direct", "confluent_kafka"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "kafka_direct/release.py").write_text("VERSION = '0.0.9'")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without packages of its own
    python.chmod(0o755)

    assert "has kafka_direct 0.0.9 where" in (worker_python._fault(str(python), (str(tmp_path),)) or "")


@pytest.fixture
def context(tmp_path, monkeypatch):
    """A SparkContext whose workers take a Python without any package."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(worker_python.SparkFiles, "getRootDirectory", lambda: str(tmp_path / "files"))
    return SimpleNamespace(master="local[2]", pythonExec=str(python), _python_includes=[], environment={})


def test_a_python_that_was_mended_is_asked_again(context, tmp_path):
    """In a notebook the package is installed, and the cell runs again. What was right is asked once."""
    with pytest.raises(ConfigError, match="without kafka_direct, and the driver runs"):
        worker_python.require_package(context)
    for name in ("kafka_direct", "confluent_kafka"):
        (tmp_path / "files" / name).mkdir(parents=True)
        (tmp_path / "files" / name / "__init__.py").touch()
    (tmp_path / "files/kafka_direct/release.py").write_text(f"VERSION = {worker_python.VERSION!r}")

    worker_python.require_package(context)
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    worker_python.require_package(context)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "spark://host:7077"])
def test_workers_that_are_elsewhere_are_not_asked(context, master):
    """They have folders of their own, and what --archives brought is there."""
    worker_python.require_package(SimpleNamespace(**vars(context) | {"master": master}))
