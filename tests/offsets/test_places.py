"""Places in a checkpoint: found by content, read, moved; and what speaks against moving them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from kafka_direct.errors import ConfigError, CorruptLog, Fenced, Refused, StoreUnavailable
from kafka_direct.offsets import Batch, Loss, LossCause, OffsetLog, OffsetRange, TopicPartition
from kafka_direct.offsets.model.reached import Gone
from kafka_direct.offsets.operate.checkpoint import find_places, stream_place
from kafka_direct.offsets.operate.query_place import BUSY_MS, QueryPlace
from kafka_direct.offsets.operate.spark_checkpoint import SparkCheckpoint
from kafka_direct.offsets.operate.standing import BatchState, Standing, UnfinishedBatch
from kafka_direct.offsets.store.lease import Lease
from kafka_direct.offsets.store.spark_log import SparkLog

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
META = {"batchWatermarkMs": 5, "batchTimestampMs": 1000, "conf": {}}


# -- direct streams


def batch(number, start, until, **changes):
    ranges = (OffsetRange("t", 0, start, until),)
    return Batch(**{"id": number, "ranges": ranges, "times": (1000 * number,), "topic_ids": {"t": "x"}, **changes})


@pytest.fixture
def log(tmp_path):
    """Batch 1 failed, 2 succeeded, 3 is planned."""
    log = OffsetLog(str(tmp_path), "orders")
    for number in range(4):
        log.plan(batch(number, 10 * number, 10 * number + 10))
    log.commit(0)
    log.commit(2)
    return log


@pytest.fixture
def stream(log, tmp_path):
    (place,) = find_places(str(tmp_path))
    return place


def test_a_stream(stream, log):
    """It stands where finished work ends without a gap, and says what is planned."""
    assert (stream.kind, stream.name, stream.title) == ("stream", "orders", f"stream orders in {log.path}")
    assert stream.standing() == Standing(
        committed={T0: 10},
        reached={T0: 30},
        topic_ids={"t": "x"},
        last_batch=3,
        last_state=BatchState.PLANNED,
        last_ms=3000,
        unfinished=(
            UnfinishedBatch(id=1, start={T0: 10}, end={T0: 20}),
            UnfinishedBatch(id=3, start={T0: 30}, end={T0: 40}),
        ),
    )
    log.commit(1)
    log.commit(3)
    assert stream.standing().last_state is BatchState.COMMITTED


def test_a_reset_keeps_what_is_gone(stream, log):
    """The next run need not accept a loss that was accepted; what is reset by name is not gone any more."""
    u0, u1 = TopicPartition("u", 0), TopicPartition("u", 1)
    log.plan(batch(4, 40, 40, gone={u0: Gone(offset=7, topic_id="z"), u1: Gone(offset=8)}))
    stream.reset({T0: 5, u1: 2}, {"t": "y"}, 9000)

    assert log.load().last.gone == {u0: Gone(offset=7, topic_id="z")}


def test_where_a_stream_stands_whose_topics_are_gone(tmp_path):
    """Nowhere; not where its oldest batch began."""
    log = OffsetLog(str(tmp_path), "orders")
    log.plan(batch(0, 0, 10))
    deleted = Loss(topic_partition=T0, cause=LossCause.DELETED, wanted=10, earliest=None, latest=None, resumed=None)
    log.plan(batch(1, 0, 0, ranges=(), losses=(deleted,)))
    log.commit(0)
    log.commit(1)

    assert stream_place(str(tmp_path), "orders").standing().committed == {}


def test_a_stream_is_moved(stream, log):
    """One more batch, a reset, committed; what was planned is over, and the topic's id is the one of now."""
    assert [text[:38] for text in stream.caution(stream.standing())] == [
        "batch 1 is planned and not committed: ",
        "batch 3 is planned and not committed: ",
    ]
    assert stream.reset({T0: 5, T1: 0}, {"t": "y"}, 9000) == f"batch 4 of stream orders in {log.path}"

    standing = stream.standing()
    assert standing.committed == standing.reached == {T0: 5, T1: 0}
    assert (standing.last_batch, standing.last_state, standing.last_ms) == (4, BatchState.RESET, 9000)
    assert (standing.unfinished, standing.topic_ids) == ((), {"t": "y"})
    assert log.load().is_committed(4)
    assert stream.caution(standing) == []


def test_a_stream_that_has_only_begun(tmp_path):
    """The first batch begins somewhere, be it finished or not."""
    log = OffsetLog(str(tmp_path), "orders")
    log.plan(batch(0, 7, 9))

    assert stream_place(str(tmp_path), "orders").standing().committed == {T0: 7}


def test_a_new_stream(tmp_path):
    """A log may be begun by a reset."""
    place = stream_place(str(tmp_path / "new"), "orders")
    assert place.standing() == Standing(committed={}, reached={})
    place.reset({T0: 5}, {}, 9000)

    assert [p.standing().committed for p in find_places(str(tmp_path / "new"))] == [{T0: 5}]


def test_a_running_stream(stream, log):
    """As long as the driver's word is good, and no longer, it speaks against a move."""
    assert stream.obstacle(5000) is None
    log.renew(Lease(at_ms=5000, valid_ms=60_000))

    for age, wait in ((0, 60), (10, 50), (59, 1)):
        written = time.time() - age
        os.utime(f"{log.path}/claims/0.lease", (written, written))
        said = f"is running: its driver said so {round(age)} s ago; stop it, or, if it has crashed, wait {wait} s"
        assert said in stream.obstacle(0), "the clocks of the two hosts do not matter"
    written = time.time() - 61
    os.utime(f"{log.path}/claims/0.lease", (written, written))
    assert stream.obstacle(5000) is None
    assert sorted(path.name for path in Path(log.path).iterdir()) == ["claims", "commits", "offsets"]


def test_a_store_that_promises_everything_needs_no_caution(stream):
    """And its probe leaves nothing behind."""
    assert stream.store_caution() is None


def test_several_streams(log, tmp_path):
    """Each stream of a checkpoint is a place; files beside them are not."""
    OffsetLog(str(tmp_path), "clicks").plan(batch(0, 0, 1))
    (tmp_path / "kafka_direct" / "notes.txt").write_text("mine")

    assert [place.name for place in find_places(str(tmp_path))] == ["clicks", "orders"]


def test_a_reset_repeats_what_stays(tmp_path):
    """The partitions that do not move keep their unfinished batches, with their ranges, under ids after the reset."""
    log = OffsetLog(str(tmp_path), "orders")
    ranges = [(OffsetRange("t", 0, n, n + 1), OffsetRange("t", 1, n, n + 1)) for n in range(3)]
    for number, both in enumerate(ranges):
        log.plan(batch(number, 0, 0, ranges=both))
    log.commit(0)
    log.commit(2)
    stream_place(str(tmp_path), "orders").reset({T0: 9, T1: 1}, {"t": "x"}, 9000, {T0})
    history = log.load()

    assert history.reset.id == 3
    assert [b.ranges for b in history if b.id > 3] == [(OffsetRange("t", 0, 9, 9), both[1]) for both in ranges[1:]]
    assert [b.id for b in history.unfinished()] == [4]
    assert history.last.end() == {T0: 9, T1: 3}


# -- queries


class Files:
    """A query's checkpoint, written as Spark does."""

    def __init__(self, folder):
        self.folder = folder
        self.write("metadata", '{"id":"x"}')

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def plan(self, number, *sources, time_ms=1000):
        metadata = json.dumps({**META, "batchTimestampMs": time_ms}, separators=(",", ":"))
        self.write(f"offsets/{number}", "\n".join(["v1", metadata, *sources]))

    def commit(self, number, watermark=0):
        self.write(f"commits/{number}", f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def query(files, tmp_path):
    """Batch 1 is planned; beside the Kafka source there is another."""
    files.plan(0, '{"t":{"0":10}}', '{"logOffset":0}')
    files.commit(0, 9)
    files.plan(1, '{"t":{"0":20}}', '{"logOffset":1}', time_ms=2000)
    (place,) = find_places(str(tmp_path))
    return place


def test_a_query(query, files, tmp_path):
    """It stands where its newest committed batch ends."""
    assert (query.kind, query.name, query.title) == ("query", "0", f"source 0 of the query in {tmp_path}")
    assert query.standing() == Standing(
        committed={T0: 10},
        reached={T0: 10},
        last_batch=1,
        last_state=BatchState.PLANNED,
        last_ms=2000,
        unfinished=(UnfinishedBatch(id=1, start={T0: 10}, end={T0: 20}),),
    )
    files.commit(1)
    standing = query.standing()
    assert (standing.committed, standing.last_state, standing.unfinished) == ({T0: 20}, BatchState.COMMITTED, ())


def test_a_query_is_moved(query, tmp_path):
    """One more batch of Spark's, with the newest commit's watermark; the other source stays where its work ended."""
    assert query.reset({T0: 5}, {}, 9000) == f"batch 2 of source 0 of the query in {tmp_path}"

    lines = (tmp_path / "offsets" / "2").read_text().split("\n")
    assert lines[2:] == ['{"t":{"0":5}}', '{"logOffset":0}']
    assert (tmp_path / "commits" / "2").read_text() == 'v1\n{"nextBatchWatermarkMs":9}'
    standing = query.standing()
    assert (standing.committed, standing.last_batch, standing.last_state) == ({T0: 5}, 2, BatchState.RESET)
    assert standing.unfinished == ()


def test_a_querys_store_that_promises_everything_needs_no_caution(query):
    assert query.store_caution() is None


def test_what_to_know_before_a_query_is_moved(query):
    """A planned batch is over, an idle query cannot be seen, and the sink misses a batch."""
    first, second, third = query.caution(query.standing())

    assert first.startswith("batch 1 is planned and not committed: after the reset it does not run again")
    assert second.startswith("an idle query leaves no sign")
    assert third.startswith("batch 2 is the reset and never reaches the sink")
    assert query.caution(Standing(committed={}, reached={}))[-1].startswith("batch 0 ")


def test_a_query_at_work(query):
    """One that has planned a batch a moment ago may be running."""
    assert query.obstacle(2000 + BUSY_MS) is None
    assert "seems to be running: it planned a batch 59 s ago; stop it, and wait 1 s" in query.obstacle(1999 + BUSY_MS)


def test_a_reset_is_no_work_of_the_query(query, files, tmp_path):
    """Its undoing, which is printed for now, is not refused for a minute."""
    query.reset({T0: 5}, {}, 2000 + BUSY_MS)

    assert query.obstacle(2001 + BUSY_MS) is None
    assert "it planned a batch 59 s ago" in query.obstacle(1999 + BUSY_MS)
    files.write("offsets/1", "torn")
    assert query.obstacle(1999 + BUSY_MS) is None
    for name in "01":
        (tmp_path / "offsets" / name).unlink()  # as Spark does with old ones
    assert query.obstacle(1999 + BUSY_MS) is None


def test_a_query_with_state(query, files):
    """Its state belongs to its batches: it cannot be moved, with or without force."""
    files.write("state/0/0/1.delta", "")

    with pytest.raises(Refused, match=r"the query keeps state .*; start it on a new checkpoint, with what export"):
        query.obstacle(2000 + BUSY_MS)


def test_a_query_whose_first_batch_is_planned(files, tmp_path):
    """Where it began stands in the folder of its source, if that wrote it down."""
    files.plan(0, '{"t":{"0":20}}')
    (query,) = find_places(str(tmp_path))
    assert query.standing().committed == {}
    files.write("sources/0/0", '\0v1\n{"t":{"0":3}}')
    assert query.standing().committed == {T0: 3}

    query.reset({T0: 5}, {}, 9000)
    assert (tmp_path / "commits" / "1").read_text() == 'v1\n{"nextBatchWatermarkMs":0}'
    assert query.standing().committed == {T0: 5}


def test_a_first_batch_of_several_sources_is_let_finish(files, tmp_path):
    """Nobody knows where the other source began; its records would be skipped, or read twice."""
    files.plan(0, '{"t":{"0":20}}', '{"u":{"0":7}}')
    query, _ = find_places(str(tmp_path))

    with pytest.raises(Refused, match="before the first batch has finished: it is not known where the query's other"):
        query.reset({T0: 5}, {}, 9000)
    assert [path.name for path in (tmp_path / "offsets").iterdir()] == ["0"]


def test_a_batch_that_the_query_plans_meanwhile(query, files, tmp_path):
    """Of the query and us one gets the batch id; we are told."""
    entry = SparkLog(str(tmp_path)).entry(1)

    with pytest.raises(Fenced, match="was written meanwhile, the query is running"):
        SparkLog(str(tmp_path)).append(1, entry.reset("0", {T0: 5}, now_ms=9000), None)
    assert not (tmp_path / "commits" / "1").exists()


def test_a_batch_that_the_query_runs_meanwhile(query, files, tmp_path):
    """Its commit is there under the id of the reset, and is not ours."""
    entry = SparkLog(str(tmp_path)).entry(1)
    files.commit(2, 77)

    with pytest.raises(Fenced, match=r"batch 2 of .* was run meanwhile; stop the query and reset again"):
        SparkLog(str(tmp_path)).append(2, entry.reset("0", {T0: 5}, now_ms=9000), None)


def test_a_reset_that_is_broken_off(query, files, tmp_path):
    """Without its commit Spark would run it: it is taken back, and if that was not to be, it is told from a batch."""
    log = SparkLog(str(tmp_path))
    log._commits.folder = str(tmp_path / "metadata")  # a file: nothing can be created below it
    with pytest.raises(OSError, match="metadata"):
        log.append(2, log.entry(1), None)
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == ["0", "1"]


def test_a_killed_reset_is_told_from_a_batch(query, files, tmp_path):
    """Killed between its two files, a reset stands there as planned, and says so; the next one supersedes it."""
    query.reset({T0: 5}, {}, 9000)
    (tmp_path / "commits" / "2").unlink()
    standing = query.standing()

    assert (standing.last_state, standing.committed) == (BatchState.PLANNED, {T0: 10})
    assert standing.unfinished == (UnfinishedBatch(id=2, start={T0: 10}, end={T0: 5}, is_reset=True),)
    query.reset({T0: 5}, {}, 9000)
    assert query.standing().committed == {T0: 5}


def test_torn_and_missing_files_of_a_query(query, files, tmp_path):
    """They are named; what is no batch is left alone, as Spark does."""
    files.write("offsets/notes.txt", "mine")
    files.commit(7)  # of a batch that was never planned
    assert query.standing().committed == {T0: 10}
    files.write("offsets/1", "v1")
    with pytest.raises(CorruptLog, match=r"offsets/1 is torn or was not written by Spark"):
        query.standing()
    files.write("offsets/1", 'v1\n{"batchTimestampMs":Infinity}\n-')
    with pytest.raises(CorruptLog, match="is torn"):
        query.standing()
    (tmp_path / "offsets" / "1").write_bytes(b"\xff")
    with pytest.raises(CorruptLog, match="is torn"):
        find_places(str(tmp_path))
    files.plan(1, '{"t":{"0":20}}')
    (tmp_path / "offsets" / "0").unlink()
    with pytest.raises(CorruptLog, match=r"offsets/0 is missing although later batches are there"):
        query.standing()
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b"\xff")
    assert SparkLog(str(tmp_path)).initial("0") is None


def test_a_source_that_was_added_later(query, files, tmp_path):
    """Before its first batch it stands nowhere."""
    assert QueryPlace(SparkLog(str(tmp_path)), "2").standing().committed == {}


# -- neither


def test_a_query_without_kafka(files, tmp_path):
    """Its offsets are shown, not guessed at."""
    files.plan(0, '{"logOffset":0}')

    with pytest.raises(ConfigError, match=r'reads no Kafka: its offsets are \{"logOffset":0\}'):
        find_places(str(tmp_path))


def test_a_query_that_never_planned(files, tmp_path):
    """There is nothing to show or to move yet."""
    (tmp_path / "offsets").mkdir()

    with pytest.raises(Refused, match="has planned no batch yet; start it once"):
        find_places(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "said"),
    [([], "but nothing; give"), (["a", "b"], "but a, b; give"), (list("abcdefg"), "but a, b, c, d, e, …; give")],
)
def test_something_else(tmp_path, names, said):
    """What is there is said, and what would be."""
    for name in names:
        (tmp_path / name).write_text("")

    with pytest.raises(ConfigError, match=r"is no checkpoint with a Kafka position: .*" + said):
        find_places(str(tmp_path))


def test_an_empty_folder_of_ours_is_no_stream(tmp_path):
    """A folder without streams says nothing."""
    (tmp_path / "kafka_direct").mkdir()

    with pytest.raises(ConfigError, match="but kafka_direct/; give"):
        find_places(str(tmp_path))


class Failing:
    """A store that fails in the call with that number, before it did its work or after, or from it on."""

    def __init__(self, store, fails_at, how):
        self._store, self._fails_at, self._how, self.calls = store, fails_at, how, 0

    def __getattr__(self, name):
        use = getattr(self._store, name)

        def call(*arguments):
            self.calls += 1
            is_hit = self.calls == self._fails_at or (self._how == "from it on" and self.calls > self._fails_at)
            if is_hit and self._how != "after":
                raise StoreUnavailable(f"{name} failed")
            done = use(*arguments)
            if is_hit:
                raise StoreUnavailable(f"the answer of {name} was lost")
            return done

        return call


@pytest.mark.parametrize("how", ["before", "after", "from it on"])
@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_a_reset_of_a_query_on_a_store_that_fails(query, tmp_path, fails_at, how):
    """Never a commit without its plan, which would make Spark run the batch before it again; a next reset is right."""
    log = SparkLog(str(tmp_path))
    last, ids = log.planned_ids()[-1], log.committed_ids()
    store = Failing(log._offsets._store, fails_at, how)
    log._offsets._store = log._commits._store = store
    error = None
    try:
        log.append(last + 1, log.entry(last), ids[-1])
    except OSError as raised:
        error = raised
    there = SparkLog(str(tmp_path))

    assert set(there.committed_ids()) - set(ids) <= set(there.planned_ids())
    if error is None:
        assert there.committed_ids()[-1] == last + 1
    elif last + 1 in there.planned_ids():
        assert "reset again before the query starts" in str(error)
    place = QueryPlace(SparkLog(str(tmp_path)), "0")
    place.reset({T0: 3}, {}, 9000)
    assert (place.standing().committed, place.standing().unfinished) == ({T0: 3}, ())


# -- what Spark keeps of a program


def test_spark_forgets_its_program_and_the_log_stays(log, tmp_path):
    """Oldest first, and the half-written one before them; nothing else is touched."""
    for name in (
        "checkpoint-2000",
        "checkpoint-1000",
        "checkpoint-2000.bk",
        "temp",
        "checkpoint-x",
        "checkpoint-1.old",
    ):
        (tmp_path / name).write_text("")
    (tmp_path / "0b3c").mkdir()  # where Spark keeps states
    before = list(log.load())
    found = SparkCheckpoint(str(tmp_path))

    assert found.files() == ["temp", "checkpoint-1000", "checkpoint-2000.bk", "checkpoint-2000"]
    found.forget()
    assert found.files() == []
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-x", "checkpoint-1.old", "0b3c", "kafka_direct"}
    assert list(log.load()) == before


def test_a_query_keeps_no_program(query, tmp_path):
    """Its functions are the program's own at each start."""
    with pytest.raises(ConfigError, match="is the checkpoint of a query, which keeps no functions"):
        SparkCheckpoint(str(tmp_path))
