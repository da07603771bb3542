"""Two drivers on one log: the newest works, and nothing that the older one does afterwards counts."""

from __future__ import annotations

import pytest

from kafka_direct.errors import CorruptLog, Fenced, StoreUnavailable
from kafka_direct.offsets import Batch, OffsetLog, OffsetRange, TopicPartition
from kafka_direct.offsets.operate.checkpoint import stream_place
from kafka_direct.offsets.store.claims import claim_all
from kafka_direct.offsets.store.store import Location
from kafka_direct.testing import FakeKafka

from .test_cycle import SECOND, Driver


@pytest.fixture
def kafka():
    kafka = FakeKafka()
    kafka.create_topic("t", partitions=2)
    for partition in range(2):
        kafka.append("t", partition, 10)
    return kafka


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST = (0, {0: (0, 10), 1: (0, 10)})


class Frozen(Exception):
    """The process was stopped at this moment; the rest of the call never ran, or runs much later."""


def frozen_before(driver, folder):
    """The older driver looks, and is frozen before its write; returns how to let the write happen."""
    files = getattr(driver.log, folder)
    create, calls = files.create, []

    def freeze(name, text):
        calls.append((name, text))
        raise Frozen

    files.create = freeze

    def thaw():
        files.create = create
        return create(*calls[0])

    return thaw


@pytest.mark.parametrize("step", ["plan", "replay", "commit"])
def test_the_older_driver_is_fenced_in_each_step(kafka, tmp_path, step):
    """Its error says who has taken over; it leaves nothing in the log."""
    if step == "replay":
        Driver(kafka, tmp_path).batch(1)
    older = Driver(kafka, tmp_path)
    if step == "commit":
        older.batch(2)
    newer = Driver(kafka, tmp_path)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())

    with pytest.raises(Fenced, match=r"stream s belongs to another driver now, process \d+ of ") as fenced:
        older.end(2) if step == "commit" else older.batch(2)

    assert fenced.value.owner == newer.log.claim.owner
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert newer.batch(3) == FIRST


def test_a_plan_of_a_frozen_driver_is_the_batch_of_the_newer_one(kafka, tmp_path):
    """It looked before the newer one claimed the log, and wrote afterwards: one id has one set of ranges for ever."""
    older = Driver(kafka, tmp_path)
    thaw = frozen_before(older, "_plans")
    with pytest.raises(Frozen):
        older.batch(1)
    newer = Driver(kafka, tmp_path)
    thaw()
    with pytest.raises(Fenced):
        older.log.require_newest()
    kafka.append("t", 0, 5)

    assert newer.batch(2) == FIRST, "the older driver's ranges, in the newer one's run"
    newer.end(2)
    assert newer.batch(3) == (1, {0: (10, 15), 1: (10, 10)})
    assert newer.committed_ids() == [0]
    assert next(b.times for b in newer.log.load()) == (SECOND, 2 * SECOND)


@pytest.mark.parametrize("is_taken_up", [True, False])
@pytest.mark.parametrize("recovered", [True, False])
def test_a_commit_of_a_frozen_driver(kafka, tmp_path, recovered, is_taken_up):
    """Once the newer one has taken the batch up, only its own commit counts, also after it was killed."""
    older = Driver(kafka, tmp_path)
    older.batch(1)
    thaw = frozen_before(older, "_commits")
    with pytest.raises(Frozen):
        older.end(1)
    newer = Driver(kafka, tmp_path, recovered=recovered)
    if is_taken_up:
        assert newer.batch(1 if recovered else 2) == FIRST
    thaw()

    assert newer.committed_ids() == ([] if is_taken_up else [0])
    if is_taken_up:
        newer.end(1 if recovered else 2)
        assert newer.committed_ids() == [0], "its own commit"
        assert newer.committed_ids() == Driver(kafka, tmp_path).committed_ids()


def test_a_killed_driver_leaves_the_batch_to_the_next(kafka, tmp_path):
    """Seen: frozen in its output, the first one's commit was accepted after the second had taken the batch up."""
    older = Driver(kafka, tmp_path)
    older.batch(1)
    thaw = frozen_before(older, "_commits")
    with pytest.raises(Frozen):
        older.end(1)
    Driver(kafka, tmp_path).batch(2)  # killed half-way
    thaw()

    assert Driver(kafka, tmp_path).batch(3) == FIRST


def test_a_batch_that_changed_hands_is_pruned(kafka, tmp_path):
    """No file of it stays behind."""
    older = Driver(kafka, tmp_path)
    older.batch(1)
    thaw = frozen_before(older, "_commits")
    with pytest.raises(Frozen):
        older.end(1)
    newer = Driver(kafka, tmp_path)
    newer.batch(2)
    thaw()
    newer.end(2)
    folder = tmp_path / "kafka_direct" / "s"
    assert sorted(path.name for path in (folder / "commits").iterdir()) == ["0", "0.2"]

    for log in (newer.log, OffsetLog(str(tmp_path), "s")):
        log.load()
        log.prune([0])
        assert [path for kind in ("offsets", "commits", "replays") for path in (folder / kind).iterdir()] == []


def test_a_reset_fences_a_running_driver(kafka, tmp_path):
    """Also one that had looked before, and whose next id the reset took."""
    driver = Driver(kafka, tmp_path)
    driver.batch(1)
    driver.end(1)
    ranges = tuple(OffsetRange("t", partition, 3, 3) for partition in range(2))
    OffsetLog(str(tmp_path), "s").plan(Batch(id=1, ranges=ranges, times=(5 * SECOND,), is_reset=True))

    with pytest.raises(Fenced, match="start again if the stream was reset"):
        driver.batch(2)


def test_a_driver_that_knows_nothing_of_claims_is_not_taken_over(kafka, tmp_path):
    """One of an older version, say: it is not fenced, so this one stops, and the two never work side by side."""
    driver = Driver(kafka, tmp_path)
    driver.batch(1)
    ranges = tuple(OffsetRange("t", partition, 10, 12) for partition in range(2))
    OffsetLog(str(tmp_path), "s").plan(Batch(id=1, ranges=ranges, times=(5 * SECOND,)))

    with pytest.raises(Fenced, match="planned by another driver; this one must stop"):
        driver.batch(2)


def late_plan(kafka, tmp_path):
    """A driver that is frozen before it writes the plan of its next batch; returns how to let it write."""
    older = Driver(kafka, tmp_path)
    thaw = frozen_before(older, "_plans")
    with pytest.raises(Frozen):
        older.batch(1)
    return thaw


@pytest.mark.parametrize("is_broken_off", [False, True])
@pytest.mark.parametrize("pruned", [1, 3])
def test_a_plan_that_comes_after_its_id_was_pruned_is_no_batch(kafka, tmp_path, pruned, is_broken_off):
    """Its batch has run under the newer driver long ago. It neither runs again nor makes a hole in the log."""
    thaw = late_plan(kafka, tmp_path)
    kafka.append("t", 0, 5)
    newer = Driver(kafka, tmp_path)
    for seconds in range(2, 8):
        newer.batch(seconds)
        newer.end(seconds)
    if is_broken_off:  # killed after the plans, before the commits
        for id_ in range(pruned):
            newer.log._plans.delete(str(id_))
    else:
        newer.log.prune(range(pruned))
    thaw()
    history = OffsetLog(str(tmp_path), "s").load()

    assert [batch.id for batch in history] == list(range(pruned, 6))
    assert history.unfinished() == []
    assert Driver(kafka, tmp_path).batch(9)[0] == 6


def test_a_first_batch_that_is_unfinished_is_no_late_plan(kafka, tmp_path):
    """The next driver takes it up before it plans anything; and a reset after it supersedes it."""
    Driver(kafka, tmp_path).batch(1)
    newer = Driver(kafka, tmp_path)
    assert newer.batch(2) == FIRST
    newer.batch(3)

    assert [b.id for b in OffsetLog(str(tmp_path), "s").load().unfinished()] == [0, 1]
    stream_place(str(tmp_path), "s").reset(dict.fromkeys([T0, T1], 3), {}, 9000)
    assert [b.id for b in OffsetLog(str(tmp_path), "s").load()] == [0, 1, 2]


def test_a_log_that_is_moved_away_does_not_leave_two_drivers(kafka, tmp_path):
    """The first driver of the new log has the epoch of the one that runs, which sees that it is another."""
    older = Driver(kafka, tmp_path)
    older.batch(1)
    (tmp_path / "kafka_direct").rename(tmp_path / "moved")
    newer = Driver(kafka, tmp_path)
    assert newer.log.claim.epoch == older.log.claim.epoch == 1

    with pytest.raises(Fenced):
        older.batch(2)
    assert newer.batch(2) == FIRST


def test_a_reset_comes_after_the_plan_of_a_frozen_driver(kafka, tmp_path, monkeypatch):
    """It does not take that plan for its own: the reset gets the next id."""
    thaw = late_plan(kafka, tmp_path)
    load, thawed = OffsetLog.load, []

    def load_and_thaw(log):
        history = load(log)
        thawed.append(thawed or thaw())
        return history

    monkeypatch.setattr(OffsetLog, "load", load_and_thaw)
    said = stream_place(str(tmp_path), "s").reset({T0: 3, T1: 3}, {}, 9000)
    monkeypatch.undo()
    history = OffsetLog(str(tmp_path), "s").load()

    assert said.startswith("batch 1 of ")
    assert (history.reset.id, history.unfinished()) == (1, [])
    assert Driver(kafka, tmp_path).batch(2) == (2, {0: (3, 10), 1: (3, 10)})


@pytest.mark.parametrize("is_late", [True, False])
def test_a_reset_while_a_driver_starts(kafka, tmp_path, monkeypatch, is_late):
    """If its plan is in the log it is valid, and the driver stops; otherwise the command says that nothing was done."""
    plan = OffsetLog.plan

    def overtaken(log, batch):
        claims = OffsetLog(str(tmp_path), "s").claims
        if is_late:
            plan(log, batch)
        claim_all([claims], "a driver that starts")
        return plan(log, batch)

    monkeypatch.setattr(OffsetLog, "plan", overtaken)
    place = stream_place(str(tmp_path), "s")
    if is_late:
        assert place.reset({T0: 3, T1: 3}, {}, 9000).startswith("batch 0 of ")
    else:
        with pytest.raises(Fenced, match="a driver that starts"):
            place.reset({T0: 3, T1: 3}, {}, 9000)
    assert (OffsetLog(str(tmp_path), "s").load().reset is not None) is is_late


def test_a_time_that_two_drivers_used_means_the_newer_ones_batch(kafka, tmp_path):
    """The clock of the host before was ahead: the replay of batch 0 ran at the time that batch 2 had before."""
    first = Driver(kafka, tmp_path)
    first.batch(1)
    first.end(1, failure="ValueError: 7")
    for seconds in (2, 3):
        first.batch(seconds)
        first.end(seconds)
    second = Driver(kafka, tmp_path)
    assert second.batch(3) == FIRST

    assert OffsetLog(str(tmp_path), "s").load().by_time()[3 * SECOND].id == 0
    assert Driver(kafka, tmp_path, recovered=True).batch(3) == FIRST


def test_a_replay_without_its_plan_is_a_hole(kafka, tmp_path):
    """Also if no commit of the batch counts: its ranges are not known any more."""
    Driver(kafka, tmp_path).batch(1)
    Driver(kafka, tmp_path).batch(2)
    (tmp_path / "kafka_direct" / "s" / "offsets" / "0").unlink()

    with pytest.raises(CorruptLog, match="offsets/0 is missing although its replay is there"):
        OffsetLog(str(tmp_path), "s").load()


# -- a file system that fails


class Memory:
    """A store without a disk."""

    def __init__(self):
        self._files = {}

    def entries(self, folder):
        return [path.rpartition("/")[2] for path in self._files if path.rpartition("/")[0] == folder]

    def read(self, path):
        if path not in self._files:
            raise FileNotFoundError(path)
        return self._files[path]

    def modified(self, path):
        self.read(path)
        return 0.0

    def create(self, path, text):
        return self._files.setdefault(path, text) is text

    def replace(self, path, text):
        self._files[path] = text

    def delete(self, path):
        self._files.pop(path, None)

    def caution(self, _):
        return None


class Flaky:
    """A store that fails once, in the call with that number: before it did its work, or after."""

    def __init__(self, store, fails_at, when):
        self._store, self._fails_at, self._when, self.calls = store, fails_at, when, 0

    def __getattr__(self, name):
        use = getattr(self._store, name)
        if name == "caution":
            return use

        def call(*arguments):
            self.calls += 1
            if self.calls != self._fails_at:
                return use(*arguments)
            if self._when == "after":
                use(*arguments)
            raise StoreUnavailable(f"{name} failed")

        return call


def run(kafka, memory, seen, *, fails_at=None, when="before", waits=True, is_killed=False):
    """A run of three batches; returns how often it used the store. If it is killed, the last batch has no commit."""
    flaky = []

    def spoil(log):
        flaky.append(Flaky(log._stream._store, fails_at, when))
        for files in (log._stream, log._plans, log._commits, log._replays, log.claims._files):
            files._store = flaky[0]

    try:
        driver = Driver(kafka, "c", spoil=spoil, is_patient=waits, locate=lambda _: Location(memory, "c"))
        for seconds in range(1, 4):
            kafka.append("t", 0, 3)
            id_, ranges = driver.batch(seconds)
            seen.setdefault(id_, set()).add(str(sorted(ranges.items())))
            if is_killed and seconds == 3:
                return flaky[0].calls
            try:
                driver.end(seconds)
            except StoreUnavailable:  # Spark's listener goes on; the commit is tried again
                if not waits:
                    raise
        driver.cycle.close()
    except StoreUnavailable:
        pass
    return flaky[0].calls


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "ends"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("is_restart", [False, True], ids=["first run", "restart"])
def test_after_a_fault_in_any_operation_a_restart_is_right(is_restart, when, waits):
    """Whichever call of the store fails, and whether its work was done: one set of ranges an id, none missing."""

    def prepared(memory, seen):
        kafka = FakeKafka()
        kafka.create_topic("t")
        if is_restart:
            run(kafka, memory, seen, is_killed=True)
        return kafka

    memory = Memory()
    uses = run(prepared(memory, {}), memory, {})
    assert uses > 20
    for fails_at in range(1, uses + 1):
        memory, seen = Memory(), {}
        kafka = prepared(memory, seen)
        run(kafka, memory, seen, fails_at=fails_at, when=when, waits=waits)
        run(kafka, memory, seen)
        history = OffsetLog("c", "s", locate=lambda _: Location(memory, "c")).load()  # noqa: B023

        assert all(len(ranges) == 1 for ranges in seen.values()), (fails_at, seen)
        assert history.unfinished() == [], fails_at
        assert [batch.id for batch in history] == list(range(len(seen)))
        assert [sorted(batch.end().values()) for batch in history][-1] == [kafka._log("t", 0).end], fails_at
