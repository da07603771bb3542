"""`OffsetLog`: what was written is what is read, and whatever else lies there is an error that names it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kafka_direct.errors import CorruptLog, Fenced
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange
from kafka_direct.offsets.store.claims import claim_all
from kafka_direct.offsets.store.codec import Commit, encode_batch, encode_commit
from kafka_direct.offsets.store.lease import Lease
from kafka_direct.offsets.store.store import locate
from tests.strategies import batches


def batch(number, **changes):
    """Batch `number` reads ten offsets."""
    offset_range = OffsetRange("t", 0, 10 * number, 10 * number + 10)
    return Batch(**{"id": number, "ranges": (offset_range,), "times": (1000 * number,), **changes})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A checkpoint with the batches 0 to 3, of which 0 and 2 are committed; written once, as each file is synced."""
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    log = OffsetLog(str(checkpoint), "s")
    for number in range(4):
        log.plan(batch(number))
    log.commit(0)
    log.commit(2)
    return checkpoint


@pytest.fixture
def log(written, tmp_path):
    """The log in a copy of that checkpoint."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return OffsetLog(str(tmp_path), "s")


@pytest.fixture
def folder(tmp_path):
    """Where that log's files are."""
    return tmp_path / "kafka_direct" / "s"


def assert_names(log, path, said=""):
    """Loading fails, and the error has the path in its text and as an attribute."""
    with pytest.raises(CorruptLog, match=said) as refused:
        log.load()

    assert refused.value.path == str(path)
    assert str(path) in str(refused.value)


def test_a_new_log_is_empty(tmp_path):
    """A log that was never written has no batches, and reading it makes no folder."""
    log = OffsetLog(str(tmp_path), "s")

    assert list(log.load()) == []
    assert list(tmp_path.iterdir()) == []


def test_where_the_files_are(log, folder, tmp_path):
    """`<checkpoint>/kafka_direct/<name>/{offsets,commits}/<batch id>`: the layout is fixed."""
    assert log.path == str(folder)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "kafka_direct/s/commits/0",
        "kafka_direct/s/commits/2",
        *(f"kafka_direct/s/offsets/{number}" for number in range(4)),
    ]


def test_what_was_written_is_loaded(log):
    """Another run finds the batches, in order, and which of them are committed."""
    history = log.load()

    assert list(history) == [batch(number) for number in range(4)]
    assert [b.id for b in history.unfinished()] == [1, 3]


@settings(max_examples=10, phases=[Phase.generate])  # each example syncs its files: shrinking takes minutes
@given(st.lists(batches, min_size=1, max_size=4), st.sampled_from([0, 8, 98]), st.data())
def test_any_batches_are_loaded_as_they_were_planned(tmp_path_factory, planned, first, data):
    """Ranges, times, topic ids, waits and losses come back, past batch 9 and batch 99 in the right order."""
    # Batches that need not meet: each is a reset.
    planned = [replace(b, id=first + i, is_reset=b.is_reset or i > 0) for i, b in enumerate(planned)]
    committed = data.draw(st.sets(st.sampled_from([b.id for b in planned])))
    log = OffsetLog(str(tmp_path_factory.mktemp("log")), "s")
    for b in planned:
        log.plan(b)
    for id_ in committed:
        log.commit(id_)
    history = log.load()

    assert list(history) == planned
    assert {b.id for b in planned if history.is_committed(b.id)} == committed


@pytest.mark.usefixtures("log")
def test_streams_have_logs_of_their_own(tmp_path):
    """Two streams of one context share the checkpoint, not the log."""
    assert list(OffsetLog(str(tmp_path), "other").load()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ranges": (OffsetRange("t", 0, 30, 31),)},
        {"ranges": ()},
        {"times": (1,)},
        {"topic_ids": {"t": "x"}},
    ],
)
def test_a_batch_that_is_planned_already_fences_this_driver(log, folder, changes):
    """Whoever comes second stops, with equal ranges too, and the first one's plan stays."""
    with pytest.raises(Fenced, match="this one must stop") as fenced:
        log.plan(batch(3, **changes))

    assert fenced.value.path == str(folder / "offsets" / "3")
    assert list(log.load())[3] == batch(3)


def test_a_replay_is_noted(log):
    """The time of a replay is kept with the batch, whose ranges stay."""
    log.replay(1, 9000)

    assert list(log.load())[1] == batch(1, times=(1000, 9000))


def test_committing_twice_is_committing_once(log):
    """A batch that ended in two runs is as committed as one that ended in one."""
    log.commit(2)

    assert [b.id for b in log.load().unfinished()] == [1, 3]


@pytest.mark.parametrize(
    ("kind", "text"), [("offsets", encode_batch(batch(2))), ("commits", encode_commit(Commit(2, 0)))]
)
def test_a_file_torn_anywhere_is_named(log, folder, kind, text):
    """Cut after any byte, a file is an error and never a shorter truth."""
    path = folder / kind / "2"
    assert path.read_text() == text
    for length in range(len(text)):
        path.write_text(text[:length])
        assert_names(log, path, "is torn or was not written by kafka_direct")


@pytest.mark.parametrize("kind", ["offsets", "commits"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"\xff\xfe", b"v1\n{}\n", b"{}\n", b"[]\n", b"null", b"5", b"[" * 100_000],
    ids=lambda content: repr(content[:6]),
)
def test_a_foreign_text_is_named(log, folder, kind, content):
    """Blocks of zeros after a power cut, other encodings, Spark's own log format: none of it is read."""
    path = folder / kind / "2"
    path.write_bytes(content)
    assert_names(log, path, "is torn or was not written by kafka_direct")


@pytest.mark.parametrize("kind", ["offsets", "commits"])
@pytest.mark.parametrize("name", ["_SUCCESS", "3.json", "03", "-1", "3 ", "٣", "3~"])
def test_a_foreign_name_is_named(log, folder, kind, name):
    """Only batch ids are names of files here; another one is not passed over."""
    path = folder / kind / name
    path.touch()
    assert_names(log, path, "named by batch id")


@pytest.mark.parametrize("kind", ["offsets", "commits"])
def test_a_folder_is_named(log, folder, kind):
    """A folder with a batch's name is foreign too."""
    (folder / kind / "7").mkdir()
    assert_names(log, f"{folder / kind / '7'}/", "named by batch id")


@pytest.mark.parametrize("kind", ["offsets", "commits"])
def test_hidden_files_are_ignored(log, folder, kind):
    """What a killed writer or a copying tool leaves under a dot name changes nothing."""
    before = list(log.load())
    (folder / kind / ".9.1234.tmp").write_text("{")
    (folder / kind / ".2.crc").touch()

    assert list(log.load()) == before


@pytest.mark.parametrize("kind", ["offsets", "commits"])
def test_a_renamed_file_is_named(log, folder, kind):
    """A file tells its batch; under another name it is refused."""
    (folder / kind / "2").rename(folder / kind / "4")
    assert_names(log, folder / kind / "4", "holds batch 2, not 4")


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_batch_between_others_is_named(log, folder, number):
    """A hole is no shorter log: its offsets would be skipped or read twice."""
    path = folder / "offsets" / str(number)
    path.unlink()
    assert_names(log, path, f"is missing although batch {number + 1} follows it")


def test_a_commit_without_its_plan_is_named(log, folder):
    """A commit newer than every plan means that plans are gone."""
    log.commit(3)
    path = folder / "offsets" / "3"
    path.unlink()
    assert_names(log, path, "is missing although its commit is there")


def test_commits_without_any_plan_are_named(log, folder):
    """An emptied folder is not a new stream as long as commits tell of an old one."""
    for path in (folder / "offsets").iterdir():
        path.unlink()
    assert_names(log, folder / "offsets" / "2", "its commit is there")


def test_pruned_batches_are_gone(log, folder):
    """Plan and commit go together; the rest is as it was."""
    log.commit(1)
    log.prune([1, 0])

    assert [b.id for b in log.load()] == [2, 3]
    assert [path.name for path in (folder / "commits").iterdir()] == ["2"]


def test_a_crash_while_pruning_is_survived(log, folder):
    """Killed between the plan and its commit, the log loads, and nothing runs again that was finished."""
    (folder / "offsets" / "0").unlink()
    history = log.load()

    assert [b.id for b in history] == [1, 2, 3]
    assert [b.id for b in history.unfinished()] == [1, 3]
    assert not history.is_committed(0)


def test_pruning_takes_the_plan_first_and_the_oldest_first(log, folder):
    """Stopped at any point, pruning leaves no finished batch that looks unfinished, and no hole."""
    log.commit(1)
    (folder / "commits" / "1").unlink()
    (folder / "commits" / "1").mkdir()  # the file system refuses to delete it as a file: pruning stops here
    with pytest.raises(OSError, match="1"):
        log.prune([2, 1, 0])

    assert sorted(path.name for path in (folder / "offsets").iterdir()) == ["2", "3"]
    assert sorted(path.name for path in (folder / "commits").iterdir()) == ["1", "2"]


def test_pruning_that_was_stopped_goes_on(log, folder):
    """What was removed before it was stopped is not in its way."""
    log.commit(1)
    commit = folder / "commits" / "1"
    commit.unlink()
    commit.mkdir()
    with pytest.raises(OSError, match="1"):
        log.prune([2, 1, 0])
    commit.rmdir()
    commit.write_text(encode_commit(Commit(1, 0)))

    log.prune([2, 1, 0])

    assert [path.name for path in (folder / "offsets").iterdir()] == ["3"]
    assert list((folder / "commits").iterdir()) == []


@pytest.mark.parametrize(
    "checkpoint",
    ["{}", "{}/", "file:{}", "file://{}", "{}/with space", "file:{}/with space", "file:{}/ü#1%20"],
)
def test_one_folder_under_any_of_its_names(tmp_path, checkpoint):
    """Spark's `file:/x`, a URI and a plain path are one log, also with spaces."""
    checkpoint = checkpoint.format(tmp_path)
    OffsetLog(checkpoint, "a stream").plan(batch(0))
    plain = checkpoint.removeprefix("file://").removeprefix("file:").rstrip("/")

    assert list(OffsetLog(plain, "a stream").load()) == [batch(0)]
    assert (Path(plain) / "kafka_direct" / "a stream" / "offsets" / "0").is_file()


def test_the_log_works_where_there_is_no_local_disk():
    """All that the log does, it does on a file system that is only pyarrow's."""
    location = locate("mock:///c")
    log = OffsetLog("mock:///c", "s", locate=lambda _: location)
    for number in range(3):
        log.plan(batch(number))
    log.replay(2, 9000)
    log.commit(0)
    log.commit(0)
    log.prune([0])
    history = log.load()

    assert list(history) == [batch(1), batch(2, times=(2000, 9000))]
    assert [b.id for b in history.unfinished()] == [1, 2]
    with pytest.raises(Fenced):
        log.plan(batch(1, ranges=()))


DRIVER = """
import sys
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange
log = OffsetLog(sys.argv[1], "s")
for number in range(int(sys.argv[2])):
    ranges = tuple(OffsetRange("t", p, 10 * number, 10 * number + 10) for p in range(50))
    batch = Batch(id=number, ranges=ranges, times=(number,))
    log.plan(batch)
    log.replay(number, number + 1)
    log.commit(number)
    if number % 5 == 4 and number > 10:
        log.prune(range(number - 14, number - 9))
"""


@contextmanager
def driver(checkpoint, batches):
    """A process that plans, commits and prunes as a stream does, as fast as it can."""
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(checkpoint), str(batches)]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_reader_beside_a_running_driver_sees_whole_states(tmp_path):
    """Loading while a driver plans, commits and prunes never fails, and never shows finished work as unfinished."""
    log, last = OffsetLog(str(tmp_path), "s"), -1
    with driver(tmp_path, 40) as writer:
        while writer.poll() is None:
            history = log.load()
            newest = -1 if history.last is None else history.last.id
            unfinished = [b.id for b in history.unfinished()]

            assert newest >= last
            assert all(len(b.ranges) == 50 for b in history)
            assert all(id_ > last for id_ in unfinished)  # at most the one that it was writing
            last = newest - 1
        assert writer.returncode == 0

    assert log.load().finished_end() == log.load().last.end()


@pytest.mark.parametrize("seen", [1, 17])
def test_a_log_survives_the_kill_of_its_driver(tmp_path, seen):
    """After kill -9 at any moment the log loads, and at most the last batch is unfinished."""
    log = OffsetLog(str(tmp_path), "s")
    with driver(tmp_path, 100_000) as writer:
        while log.load().next_id < seen:
            assert writer.poll() is None
        writer.kill()
    history = log.load()

    assert history.next_id >= seen
    assert [b.id for b in history.unfinished()] in ([], [history.last.id])


def test_a_superseded_batch_is_pruned_without_a_commit(log, folder):
    """A reset leaves plans behind that nobody ever commits; they go like the others."""
    log.plan(batch(4, is_reset=True))
    log.prune([0, 1, 2, 3])

    assert [path.name for path in (folder / "offsets").iterdir()] == ["4"]
    assert list((folder / "commits").iterdir()) == []


def test_a_lease_is_kept_beside_the_batches(log, folder):
    """It is renewed and released, and never in the way of the log."""
    assert log.lease() is None
    log.renew(Lease(at_ms=1, valid_ms=2))
    log.renew(Lease(at_ms=3, valid_ms=2))

    assert log.lease()[0] == Lease(at_ms=3, valid_ms=2)
    assert log.lease()[1] < 60
    assert [b.id for b in log.load()] == [0, 1, 2, 3]
    log.release()
    log.release()
    assert log.lease() is None
    (folder / "claims" / "0.lease").write_text("torn")
    assert log.lease() is None


def test_nobody_removes_anothers_lease(tmp_path):
    """An older driver that stops late, or says late that it runs, changes only its own."""
    older, newer = OffsetLog(str(tmp_path), "s"), OffsetLog(str(tmp_path), "s")
    for log in (older, newer):
        log.claim = claim_all([log.claims], "x")
        log.renew(Lease(at_ms=1, valid_ms=log.claim.epoch))
    older.renew(Lease(at_ms=2, valid_ms=7))
    older.release()

    assert newer.lease()[0] == Lease(at_ms=1, valid_ms=2)
