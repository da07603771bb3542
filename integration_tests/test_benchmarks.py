"""The benchmarks in their small form: what they time must be right. How fast it is fails no test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_the_small_form_answers_right(tmp_path):
    """Each contestant does its work, and the report has a row for each, as table, JSON and plot."""
    command = [sys.executable, "-m", "benchmarks", "--small", "--out", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr[-3000:]
    report = json.loads((tmp_path / "report.json").read_text())
    who = {row["contestant"] for row in report["rows"]}
    assert {"consume() alone", "to Arrow, value", "(key, value) as text", "sized by the range"} <= who
    assert report["facts"]["fetched"]["received_in_100_batches"] > 0
    assert (tmp_path / "report.svg").stat().st_size > 0


def test_a_wrong_answer_ends_it(monkeypatch):
    """A contestant that leaves records out is no winner."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.contest import Contest, WrongAnswer

    contest = Contest("count", {"all": lambda: 3, "some": lambda: 2}, 3, 3, "all")

    with pytest.raises(WrongAnswer, match="some answered 2, not 3"):
        contest.run(rounds=1)
