"""What is found wrong with the Python that workers are to take."""

from __future__ import annotations

import doctest
import sys

from kafka_direct.dstream import worker_python


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
