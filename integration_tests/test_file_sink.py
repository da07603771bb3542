"""FileSink: a batch's files appear together, a replay takes their place, a failed batch leaves nothing."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced
from kafka_direct.offsets import LogOwner, OffsetRange, Origin
from kafka_direct.sinks import FileSink
from kafka_direct.sinks.files.content import Content
from kafka_direct.sinks.files.store import Attempt
from kafka_direct.testing import wait_until


def texts(folder):
    return sorted(line for part in folder.glob("part-*") for line in part.read_text().splitlines())


def test_a_replay_takes_the_place_of_what_it_wrote(sc, tmp_path):
    """There is one folder for each batch id, with the files of its last run alone; nothing hidden is left."""
    sink = FileSink(f"file:{tmp_path}/out")
    for values, parts in ((["a", "b", "c"], 3), (["a", "b"], 1)):
        with sink.batch(7) as folder:
            sc.parallelize(values, parts).saveAsTextFile(folder)
            assert not (tmp_path / "out/batch=7").exists() or values == ["a", "b"]
        assert texts(tmp_path / "out/batch=7") == values
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["batch=7"]
    assert sorted(sc.textFile(f"{tmp_path}/out/*").collect()) == ["a", "b"]


def test_a_batch_that_fails_half_way_is_not_there(sc, tmp_path):
    """Readers see what was there before; the next attempt clears up what a killed one left."""
    sink, out = FileSink(str(tmp_path)), tmp_path / "batch=0"

    def fail():
        with sink.batch(0) as folder:
            sc.parallelize(["half"], 1).saveAsTextFile(folder)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".batch=0.of-a-killed-run").mkdir()
    with sink.batch(0) as folder:
        sc.parallelize(["whole"], 1).saveAsTextFile(folder)
    assert texts(out) == ["whole"]
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(ConfigError, match="nothing was written"), sink.batch(0):
        pass
    assert texts(out) == ["whole"]


def test_a_driver_that_was_frozen_publishes_no_half(sc, tmp_path):
    """Its successor has cleared up what it had written; what it writes on after that takes no whole batch's place."""

    def write(values, parts, meanwhile=lambda: None):
        with FileSink(str(tmp_path)).batch(7) as folder:
            meanwhile()
            sc.parallelize(values, parts).saveAsTextFile(folder)

    with pytest.raises(Fenced, match="another driver has begun"):
        write(["b"], 1, meanwhile=lambda: write(["a", "b"], 2))
    assert texts(tmp_path / "batch=7") == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["batch=7"]


def test_a_driver_whose_folder_is_gone_says_why(sc, tmp_path):
    """Frozen in a task, it fails at the folder that its successor has deleted."""
    sink = FileSink(str(tmp_path))

    def write(meanwhile):
        with sink.batch(7) as folder:
            sc.parallelize(["a"], 1).saveAsTextFile(folder)
            meanwhile(folder)

    def succeed(folder):
        write(lambda _: None)
        sc.textFile(folder).collect()  # fails as the commit of a job does

    with pytest.raises(Fenced, match="another driver has begun"):
        write(succeed)
    assert texts(tmp_path / "batch=7") == ["a"]


def test_a_driver_that_was_frozen_in_publishing_replaces_no_batch(sc, batch_rdd, tmp_path, monkeypatch):
    """Its last file creates the folder again that its successor has deleted, without the records."""

    def write(value):
        with FileSink(str(tmp_path)).batch(batch_rdd(OffsetRange("t", 0, 0, 5))) as folder:
            sc.parallelize([value], 1).saveAsTextFile(folder)

    def thaw_late(attempt, content):
        if next(frozen, False):
            write("the successor's")
        write_content(attempt, content)

    write_content, frozen = Attempt._write_content, iter([True])
    monkeypatch.setattr(Attempt, "_write_content", thaw_late)
    with pytest.raises(Fenced, match="another driver has begun"):
        write("the frozen driver's")
    assert texts(tmp_path / "batch=7") == ["the successor's"]
    assert [path.name for path in tmp_path.iterdir()] == ["batch=7"]


def test_a_batch_whose_new_files_vanish_keeps_the_old(sc, tmp_path, monkeypatch):
    """As when a successor clears up between the two renames."""

    def write():
        with FileSink(str(tmp_path)).batch(7) as folder:
            sc.parallelize(["a"], 1).saveAsTextFile(folder)

    def rename_late(attempt, source, target):
        if source is attempt._hidden:
            shutil.rmtree(attempt.folder)
        rename(attempt, source, target)

    write()
    rename = Attempt._rename
    monkeypatch.setattr(Attempt, "_rename", rename_late)
    with pytest.raises(Exception, match="FileNotFoundException"):
        write()
    assert texts(tmp_path / "batch=7") == ["a"]


def test_a_batch_of_other_records_is_not_replaced(sc, batch_rdd, tmp_path):
    """Two streams with one path, or a checkpoint that was thrown away: the ids meet, and the first records stay."""
    sink = FileSink(str(tmp_path))

    def batch(until):
        return batch_rdd(OffsetRange("t", 0, 0, until))

    def write(batch, value):
        with sink.batch(batch) as folder:
            sc.parallelize([value], 1).saveAsTextFile(folder)

    first = batch(5)
    write(first, "first")
    with pytest.raises(ConfigError, match=r"holds .*give this stream a folder of its own"):
        write(batch(6), "of another stream")
    with pytest.raises(ConfigError, match="saved to twice in one batch"):
        write(first, "second output")
    assert texts(tmp_path / "batch=7") == ["first"]
    write(batch(5), "replay")
    assert texts(tmp_path / "batch=7") == ["replay"]


def test_a_stream_writes_each_batch_to_its_folder(run_stream, kafka_topic, kafka_produce, tmp_path):
    """A batch that fails after it was written is written again by its replay, to the same place."""
    topic, out = kafka_topic(), tmp_path / "out"
    kafka_produce(topic, ["a", "b"])
    sink, failing = FileSink(str(out)), [True]

    def save(rdd):
        with sink.batch(rdd) as folder:
            rdd.map(lambda row: row[1]).saveAsTextFile(folder)
        if failing:
            raise RuntimeError("after the write")

    def all_texts():
        while True:
            with suppress(FileNotFoundError):  # a replay takes a batch's place under the eyes of who polls
                return sorted(text for batch in out.glob("batch=*") for text in texts(batch))

    run_stream(topic, save, lambda: "b" in all_texts(), checkpoint=str(tmp_path / "checkpoint"))
    failing.clear()
    kafka_produce(topic, ["c"])
    run_stream(topic, save, lambda: "c" in all_texts(), checkpoint=str(tmp_path / "checkpoint"))
    assert all_texts() == ["a", "b", "c"]


def test_without_lasting_batch_ids_there_is_no_replay_to_recognise(run_stream, kafka_topic, tmp_path):
    """A stream without a checkpoint is refused, whatever is made of it, and what is no batch."""
    sink, told = FileSink(str(tmp_path)), []

    def save(rdd):
        for wrong in (rdd, rdd.map(str), "batch 7"):
            try:
                sink.batch(wrong).__enter__()
            except (ConfigError, ArgumentTypeError) as error:
                told.append(str(error))

    run_stream(kafka_topic(), save, lambda: told)
    assert "lasting batch ids" in told[0]
    assert told[1] == told[0]
    assert "this is a str" in told[2]


@pytest.mark.parametrize("path", ["s3a://bucket/x", "gs://bucket/x"])
def test_object_stores_are_refused(sc, path):
    """They rename file by file: a reader would see half a batch. Spark need not have their jars to know them."""
    with pytest.raises(ConfigError, match="cannot rename a folder at once"):
        FileSink(path)


def test_equal_ranges_of_a_topic_that_was_made_anew_are_not_replaced(sc, batch_rdd, tmp_path):
    """The checkpoint was thrown away, ids and offsets begin at 0: only the topic's id tells the batches apart."""
    sink = FileSink(str(tmp_path))

    def write(value, topic_id):
        batch = batch_rdd(OffsetRange("t", 0, 0, 5))
        batch.origin = lambda: Origin(topic_ids={} if topic_id is None else {"t": topic_id})
        with sink.batch(batch) as folder:
            sc.parallelize([value], 1).saveAsTextFile(folder)

    write("by a version without ids", None)
    write("replay", "one")
    with pytest.raises(ConfigError, match=r'holds \{"topics": \{"t": "one"\}.* of a topic that was created anew'):
        write("of the new topic", "anew")
    assert texts(tmp_path / "batch=7") == ["replay"]


def test_of_two_drivers_of_one_log_the_newer_goes_on(sc, batch_rdd, tmp_path):
    """The older one ends nothing of the newer one's, whether that is writing, has claimed as late, or is done."""

    def batch(epoch):
        made = batch_rdd(OffsetRange("t", 0, 0, 5))
        made.origin = lambda: Origin(owner=LogOwner("log", epoch))
        return made

    def write(epoch, meanwhile=lambda: None):
        with FileSink(str(tmp_path)).batch(batch(epoch)) as folder:
            sc.parallelize([f"driver {epoch}"], 1).saveAsTextFile(folder)
            meanwhile()

    def fenced(epoch, meanwhile=lambda: None):
        with pytest.raises(Fenced, match="another driver has begun"):
            write(epoch, meanwhile)

    write(1)
    write(3, meanwhile=lambda: fenced(2))
    fenced(2)
    assert texts(tmp_path / "batch=7") == ["driver 3"]

    at_once = Attempt(sc, str(tmp_path), 7, Content.of_stream(batch(5).offsetRanges(), batch(5).origin()))
    fenced(4, meanwhile=lambda: at_once._files.create(at_once._claim).close())
    write(6)
    assert texts(tmp_path / "batch=7") == ["driver 6"]
    assert [path.name for path in tmp_path.iterdir()] == ["batch=7"]


def test_a_query_does_not_replace_another_ones_batch(sc, batch_rdd, tmp_path):
    """A query with a new checkpoint counts from 0 again; an id that nobody gave replaces neither."""
    session, sink, told = SparkSession(sc), FileSink(str(tmp_path / "out")), []

    def write(_, batch_id):
        try:
            with sink.batch(batch_id) as folder:
                sc.parallelize(["written"], 1).saveAsTextFile(folder)
        except ConfigError as error:
            told.append(str(error))
        else:
            told.append("written")

    def run(checkpoint, batches):
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / checkpoint))
        query = writer.start()
        try:
            wait_until(lambda: len(told) >= batches, f"{batches} batches", timeout=60)
        finally:
            query.stop()

    run("one", 1)
    assert set(told) == {"written"}
    told.clear()
    run("two", 1)
    assert '"query": ' in told[0]
    assert "give this stream a folder of its own" in told[0]
    with pytest.raises(ConfigError, match="made of nobody knows what"), sink.batch(0):
        pass


def test_a_query_is_known_where_its_thread_is_not_pythons(tmp_path):
    """One query alone is known; of two, FileSink guesses none, and a frame knows its own."""
    job = Path(__file__).with_name("two_queries_job.py")
    environment = {**os.environ, "PYSPARK_PIN_THREAD": "false"}
    run = subprocess.run([sys.executable, job, tmp_path], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    said = json.loads(run.stdout.splitlines()[-1])

    assert said["first"] == ["written", True]
    assert "give this stream a folder of its own" in said["second"][0]
    assert texts(tmp_path / "out/batch=0") == ["first"]
    for name in ("third", "fourth"):
        assert said[name][0].startswith("2 queries run here")
        assert said[name][1] is True
