"""What a checkpoint shows of a query's batches."""

from __future__ import annotations

import json
import os

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.offsets.store.codec import encode_offsets
from kafka_direct.sql.checkpoint import FinishedBatches

CONF = '{"batchWatermarkMs":0,"batchTimestampMs":1000}'


class Checkpoint:
    """Writes the files that Spark writes, at times of the test's own."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True)

    def batch(self, number, *sources, planned, finished=None, version="v1"):
        """A source is offsets, or a line as it is."""
        lines = [source if isinstance(source, str) else line(source) for source in sources]
        self.write("offsets", number, "\n".join([version, CONF, *lines]), planned)
        if finished is not None:
            self.write("commits", number, "v1\n{}", finished)

    def write(self, folder, number, text, at):
        path = self.folder / folder / str(number)
        path.write_text(text)
        os.utime(path, (at, at))
        (self.folder / folder / f".{number}.crc").write_bytes(b"crc")


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path)


def at(offset):
    return {TopicPartition("t", 0): offset}


def line(offsets):
    return json.dumps(encode_offsets(offsets))


def test_a_batch_lasts_from_its_plan_to_its_commit(checkpoint):
    """Whenever the next one comes; and a batch without a commit has not ended."""
    checkpoint.batch(0, at(0), planned=100, finished=101)
    checkpoint.batch(1, at(50), planned=160, finished=162.5)
    checkpoint.batch(2, at(90), planned=220)
    batches = FinishedBatches(str(checkpoint.folder))

    found = batches.ending_at(at(50))
    assert (found.start, found.end, found.seconds) == (at(0), at(50), 2.5)
    assert batches.ending_at(at(90)) is None

    checkpoint.batch(2, at(90), planned=220, finished=221)
    assert batches.ending_at(at(90)).seconds == 1
    assert batches.ending_at(at(50)) is None


@pytest.mark.parametrize(
    ("version", "sources"), [("v1", ["17", "{}", "-"]), ("v2", ["files:17", "orders:{}", "other:-"])]
)
def test_a_query_of_several_sources(checkpoint, version, sources):
    """The line of this source is told by its offsets, also with the names that Spark may write before them."""
    for number, offset in enumerate((0, 7)):
        lines = [text.replace("{}", line(at(offset))) for text in sources]
        checkpoint.batch(number, *lines, planned=100 + number, finished=103 + number, version=version)

    found = FinishedBatches(f"file:{checkpoint.folder}").ending_at(at(7))
    assert (found.start, found.seconds) == (at(0), 3)


def test_the_batches_of_earlier_runs(checkpoint):
    """As many as are asked for and are there, oldest first, each where the next begins."""
    for number in range(5):
        checkpoint.batch(number, at(10 * number), planned=100 * number, finished=100 * number + number)

    def ends(count):
        return [batch.end for batch in FinishedBatches(f"file://{checkpoint.folder}").before(at(40), count)]

    assert ends(2) == [at(30), at(40)]
    assert ends(99) == [at(10), at(20), at(30), at(40)]


def test_nothing_there(tmp_path, checkpoint):
    """A folder that is not there yet, and one of another query, show nothing."""
    checkpoint.batch(0, at(0), planned=1, finished=2)
    checkpoint.batch(1, at(5), planned=3, finished=4)

    assert FinishedBatches(str(tmp_path / "none")).ending_at(at(5)) is None
    assert FinishedBatches(str(checkpoint.folder)).ending_at(at(6)) is None
    assert FinishedBatches(str(checkpoint.folder)).before(at(6), 5) == []


def test_a_reset_is_no_batch(checkpoint):
    """What an operator has skipped was not read in no time."""
    checkpoint.batch(0, at(0), planned=100, finished=101)
    reset = '{"batchTimestampMs":1000,"conf":{"kafka_direct.reset":"true"}}'
    checkpoint.write("offsets", 1, "\n".join(["v1", reset, line(at(900_000))]), 102)
    checkpoint.write("commits", 1, "v1\n{}", 102)
    batches = FinishedBatches(str(checkpoint.folder))

    assert batches.ending_at(at(900_000)) is None
    assert batches.before(at(900_000), 5) == []
    checkpoint.batch(2, at(900_010), planned=103, finished=105)
    assert batches.ending_at(at(900_010)).seconds == 2


def test_a_file_that_cannot_be_read_shows_nothing(checkpoint):
    """Spark says what is wrong with it; a batch less to learn from ends no query."""
    checkpoint.batch(0, at(0), planned=100, finished=101)
    checkpoint.batch(1, at(5), planned=102, finished=103)
    for torn in ("", "v1", "v9\n{}\n{}", "v1\n[]\n{}", "v1\n{}\n{}"):
        checkpoint.write("offsets", 0, torn, 100)
        assert FinishedBatches(str(checkpoint.folder)).ending_at(at(5)) is None


def test_a_checkpoint_where_spark_can_have_one(tmp_path):
    """A blank in a URI, which Spark does not escape; and what cannot be read is named before a query runs."""
    checkpoint = Checkpoint(tmp_path / "a b")
    checkpoint.batch(0, at(0), planned=100, finished=101)
    checkpoint.batch(1, at(5), planned=102, finished=103)

    assert FinishedBatches(f"file://{checkpoint.folder}").ending_at(at(5)).seconds == 1
    with pytest.raises(ConfigError, match="no file system for"):
        FinishedBatches("dbfs:/checkpoints/a")
