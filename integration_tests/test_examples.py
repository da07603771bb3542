"""The programs in examples/ do what their docstrings say. They share a JVM here;
`make examples` has spark-submit run each.

A program gets its records before it starts, and so reads them in its first batch.
"""

from __future__ import annotations

import os
import re
import runpy
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
BY_SUBMIT = "EXAMPLES_BY_SUBMIT" in os.environ
SUBMIT = Path(sys.executable).parent / "spark-submit"


@pytest.fixture(scope="module", autouse=True)
def session():
    """The JVM and the session of all examples."""
    if BY_SUBMIT:
        yield
        return
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    started = builder.config("spark.log.level", "OFF").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    yield started
    started.stop()


@pytest.fixture
def topic(kafka_topic, kafka_produce):
    """Make a topic of one partition with these records."""

    def make(*values):
        topic = kafka_topic()
        kafka_produce(topic, list(values))
        return topic

    return make


@pytest.fixture
def submit(kafka):
    """Run an example on a topic by spark-submit; give what it has printed."""

    def run(name, *arguments):
        conf = {"ui.enabled": "false", "ui.showConsoleProgress": "false", "log.level": "ERROR"}
        settings = [f"--conf=spark.{key}={value}" for key, value in conf.items()]
        done = subprocess.run(
            [SUBMIT, "--master=local[2]", *settings, EXAMPLES / f"{name}.py", kafka.bootstrap_servers, *arguments],
            env=os.environ | {"PYTHONWARNINGS": "ignore::FutureWarning"},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def run(kafka, submit, monkeypatch, capfd):
    """The same in this JVM, unless each is to be run by spark-submit."""

    def here(name, *arguments):
        monkeypatch.syspath_prepend(EXAMPLES)  # where the program's folder stands in a run of its own
        monkeypatch.setattr(sys, "argv", [name, kafka.bootstrap_servers, *map(str, arguments)])
        capfd.readouterr()
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capfd.readouterr().out

    return submit if BY_SUBMIT else here


def pairs(printed):
    """What pprint has shown of pairs."""
    return re.findall(r"^\('(\w+)', (\d+)\)$", printed, re.MULTILINE)


def table(printed):
    """The cells of the tables that DataFrame.show has shown."""
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if row != cells[0]]  # without the heads


# -- DStreams


def test_receiver_word_count(run, topic, kafka_produce):
    """Two receivers of a group count each word once, and the next run goes on with the group's position."""
    words = topic("apple pear", "apple")

    assert sorted(pairs(run("receiver_word_count", words, "2"))) == [("apple", "2"), ("pear", "1")]
    kafka_produce(words, ["plum"])
    assert pairs(run("receiver_word_count", words, "2")) == [("plum", "1")]


def test_direct_word_count(run, topic):
    """The ranges of a batch stand beside its counts."""
    words = topic("apple pear", "apple")
    printed = run("direct_word_count", words, "2")

    assert sorted(pairs(printed)) == [("apple", "2"), ("pear", "1")]
    assert f"{words} 0: 0 to 2\n" in printed


def test_direct_word_count_by_spark_submit(submit, topic):
    """A program finds the package and its neighbours as its user starts it."""
    assert pairs(submit("direct_word_count", topic("apple"), "1")) == [("apple", "1")]


def test_stateful_word_count(run, topic, kafka_produce, tmp_path):
    """The counts are those of all records, also of those before a restart."""
    words = topic("apple pear", "apple")
    first = run("stateful_word_count", words, tmp_path / "state", "3")
    kafka_produce(words, ["apple"])
    second = run("stateful_word_count", words, tmp_path / "state", "3")

    assert dict(pairs(first)) == {"apple": "2", "pear": "1"}
    assert dict(pairs(second)) == {"apple": "3", "pear": "1"}
    assert "a new context" in first
    assert "a new context" not in second


def test_recoverable_word_count(run, topic, kafka_produce, tmp_path):
    """Each batch has a file of its own, over both runs."""
    words = topic("apple pear", "apple")
    first = run("recoverable_word_count", words, tmp_path, "2")
    kafka_produce(words, ["plum"])
    second = run("recoverable_word_count", words, tmp_path, "3")

    files = sorted((tmp_path / "counts").iterdir(), key=lambda file: int(file.stem))
    assert [file.read_text() for file in files if file.read_text()] == ["apple 2\npear 1\n", "plum 1\n"]
    assert [file.name for file in files] == [f"{number}.txt" for number in range(len(files))]
    assert "a new context" in first
    assert "a new context" not in second


def test_blacklist(run, topic):
    """Clicks of the users that are named are left out."""
    clicks = topic("10:00 alice /home", "10:01 mallory /admin", "10:02 bob /home", "10:03 trudy /admin")
    printed = run("blacklist", clicks, "mallory,trudy", "1")

    assert set(re.findall(r"\d\d:\d\d \w+ /\w+", printed)) == {"10:00 alice /home", "10:02 bob /home"}


def test_hot_words(run, topic, tmp_path):
    """The three most frequent words stand first while they are in the window, and then have left it."""
    words = ["kafka"] * 4 + ["spark"] * 3 + ["python"] * 2 + ["java"]
    printed = run("hot_words", topic(*(f"user{n} {word}" for n, word in enumerate(words))), tmp_path, "5")

    assert pairs(printed) == [("kafka", "4"), ("spark", "3"), ("python", "2")] * 3
    assert printed.count("Time: ") >= 5


def test_counts_to_database(run, topic, kafka_produce, tmp_path):
    """The table has the counts of all records, whichever run has read them."""
    words, database = topic("apple pear", "apple"), tmp_path / "counts.db"
    run("counts_to_database", words, database, "2")
    kafka_produce(words, ["apple"])
    run("counts_to_database", words, database, "2")

    with closing(sqlite3.connect(database)) as connection:
        assert dict(connection.execute("SELECT word, count FROM counts")) == {"apple": 3, "pear": 1}


def test_best_products(run, topic):
    """Three of each category, the best first."""
    sales = ["tea drinks 3", "milk drinks 1", "tea drinks 3", "cola drinks 2", "juice drinks 5", "nuts food 4.5"]
    printed = run("best_products", topic(*sales), "1")

    assert table(printed) == [
        ["drinks", "tea", "6.0"],
        ["drinks", "juice", "5.0"],
        ["drinks", "cola", "2.0"],
        ["food", "nuts", "4.5"],
    ]


# -- Structured Streaming


def test_event_time_word_count(run, topic, tmp_path):
    """What is late within the watermark counts, what comes after it does not, and open windows are not written."""
    ten = [f"2026-11-18T10:00:{n:02} apple" for n in range(10)]
    later = ["2026-11-18T10:00:15 pear"] * 9 + ["2026-11-18T10:00:09 apple"]
    latest = ["2026-11-18T10:00:55 plum"] * 20
    too_late = ["2026-11-18T10:00:09 apple"] * 10
    printed = run("event_time_word_count", topic(*ten, *later, *latest, *too_late), tmp_path)

    assert table(printed) == [["2026-11-18 10:00:00", "apple", "11"], ["2026-11-18 10:00:10", "pear", "9"]]


def test_stream_static_join(run, topic, tmp_path):
    """Each sale has the name of its product; an unknown one has none."""
    (tmp_path / "products.csv").write_text("product,name\n1,tea\n2,milk\n")
    printed = run("stream_static_join", topic("1 3.5", "2 1", "9 7", "1 3"), tmp_path / "products.csv")

    assert table(printed) == [["1", "tea", "3.5"], ["2", "milk", "1.0"], ["9", "NULL", "7.0"], ["1", "tea", "3.0"]]


@pytest.mark.parametrize(
    ("mode", "batches"),
    [
        ("complete", [[("a", 2), ("b", 1)], [("a", 2), ("b", 2), ("c", 1)]]),
        ("update", [[("a", 2), ("b", 1)], [("b", 2), ("c", 1)]]),
        ("append", [[("a",), ("a",), ("b",)], [("b",), ("c",)]]),
    ],
)
def test_output_modes(run, topic, mode, batches):
    """All rows, those that have changed, or those that are new."""
    printed = run("output_modes", topic("a b", "a", "b", "c"), mode)

    assert [line.partition(": ")[2] for line in printed.splitlines() if not line.endswith("[]")] == [*map(str, batches)]


def test_foreach_writer(run, topic, tmp_path):
    """Each record is in a file of its batch and partition."""
    words = topic("apple", "pear")
    run("foreach_writer", words, tmp_path)

    texts = [file.read_text() for file in (tmp_path / "records").glob("*-*.txt")]
    assert "".join(texts) == f"{words} 0 0 apple\n{words} 0 1 pear\n"


def test_manage_query(run, topic):
    """Its name, its state, its last batch, its end and its error are printed."""
    lines = run("manage_query", topic("1", "2", "39")).splitlines()

    assert lines[:2] == ["running: ['totals']", "total: 42"]
    assert lines[2].startswith("status: ")
    assert lines[3].startswith("last batch: ")
    assert lines[4:] == ["active after stop: False", "failed: True"]
