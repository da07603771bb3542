"""Where the process of a query's reader finds modules."""

from __future__ import annotations

import doctest
import sys

from kafka_direct.sql import py_files
from kafka_direct.sql.py_files import find_py_files


def test_examples():
    """Every doctest gives what it shows."""
    assert doctest.testmod(py_files).failed == 0


def test_the_folder_that_has_the_files_is_added_once(monkeypatch, tmp_path):
    """Spark's own places keep their order; a second reader of the process adds nothing."""
    given = ["/lib", str(tmp_path / "streaming_job"), str(tmp_path / "streaming_job" / "shop.zip")]
    monkeypatch.setattr(sys, "path", list(given))

    find_py_files()
    find_py_files()

    assert sys.path == [*given, str(tmp_path), str(tmp_path / "shop.zip")]


def test_a_folder_that_is_there_is_taken_as_it_is(monkeypatch, tmp_path):
    """Of a Spark that tells the right folder, or has the files there, nothing is changed."""
    (tmp_path / "streaming_job").mkdir()
    given = ["/lib", str(tmp_path / "streaming_job")]
    monkeypatch.setattr(sys, "path", list(given))

    find_py_files()

    assert sys.path == given
