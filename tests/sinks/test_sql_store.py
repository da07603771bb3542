"""The SQL store on SQLite: results and offsets together, replays skipped, one driver at a time."""

import itertools
import sqlite3
import threading
import types

import pytest

from kafka_direct.dstream.outputs import BatchOutputs
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced, OutOfOrder
from kafka_direct.offsets import Batch, LogOwner, Loss, LossCause, OffsetLog, OffsetRange, Origin, TopicPartition
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.sql.dialect import find_paramstyle
from kafka_direct.sinks.sql.rows import Rows
from kafka_direct.sinks.sql.store import SqlOffsetStore, _pause

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def connect(tmp_path):
    return lambda: sqlite3.connect(tmp_path / "results.db", timeout=30)


@pytest.fixture
def store(connect):
    with connect() as connection:
        connection.execute("CREATE TABLE results (value TEXT)")
    return SqlOffsetStore(connect, "orders")


def write(*values):
    return lambda cursor: cursor.executemany("INSERT INTO results VALUES (?)", [(value,) for value in values])


def results(connect):
    return [value for (value,) in connect().execute("SELECT value FROM results ORDER BY rowid")]


def batch(*ranges, losses=()):
    return KafkaBatch(ranges, tuple(losses))


def r(start, until, partition=0):
    return OffsetRange("t", partition, start, until)


def test_results_and_offsets_arrive_together(store, connect):
    """A batch is written, and the next start is after it."""
    assert store.positions() == {}
    claim = store.claim("me")

    assert store.save(claim, batch(r(0, 2), r(7, 8, 1)), write("a", "b", "c"))
    assert results(connect) == ["a", "b", "c"]
    assert store.positions() == {T0: 2, T1: 8}


def test_rows_are_fetched_before_locks_are_held(store, connect):
    """Fetching takes time. Another task of the same database writes meanwhile; SQLite has one writer at a time."""

    def fetched():
        with connect() as other:
            other.execute("PRAGMA busy_timeout = 0")
            other.execute("INSERT INTO results VALUES ('of another task')")
        yield from "ab"

    def insert(cursor):
        write(*rows)(cursor)

    rows, claim = Rows(fetched()), store.claim("me")
    assert store.save(claim, batch(r(0, 2)), insert, rows)
    assert results(connect) == ["of another task", "a", "b"]


def test_a_batch_that_is_saved_fetches_nothing(store):
    """A task that runs again sees that its rows are there, and reads none."""
    claim = store.claim("me")
    store.save(claim, batch(r(0, 1)), write("a"))
    assert not store.save(claim, batch(r(0, 1)), write("a"), Rows(pytest.fail(str(n)) for n in range(1)))


def test_the_rows_of_other_versions_can_be_read(store, connect):
    """The table outlives an upgrade of this package: one row per partition, and one of the drivers."""
    store.claim("process 1 of a")
    claim = store.claim("process 2 of b")
    store.save(claim, batch(r(5, 8)), write("a"))

    rows = connect().execute("SELECT * FROM kafka_direct_offsets ORDER BY partition_id").fetchall()
    assert rows == [
        ("orders", "", -1, 0, 1, 2, "process 2 of b", "", 0, ""),
        ("orders", "t", 0, 5, 8, 2, None, "", 0, ""),
    ]


def test_a_replay_is_skipped(store, connect):
    """It is recognised by its ranges, and the user's code is not called."""
    claim = store.claim("me")
    store.save(claim, batch(r(0, 2)), write("a", "b"))

    assert store.is_saved(claim, batch(r(0, 2)))
    assert not store.save(claim, batch(r(0, 2)), write("again"))
    assert results(connect) == ["a", "b"]


def test_a_batch_whose_write_fails_leaves_nothing(store, connect):
    """Neither results nor offsets are there, and it may be tried again."""

    def fail(cursor):
        write("half")(cursor)
        raise RuntimeError("disk full")

    claim = store.claim("me")
    with pytest.raises(RuntimeError, match="disk full"):
        store.save(claim, batch(r(0, 2)), fail)

    assert results(connect) == []
    assert store.positions() == {}
    assert store.save(claim, batch(r(0, 2)), write("whole"))


def test_a_write_that_rolls_back_is_refused(store, connect):
    """What it writes after that would be committed without its offsets, and again by the replay."""

    def undo(cursor):
        cursor.connection.rollback()
        write("again and again")(cursor)

    claim = store.claim("me")
    with pytest.raises(ConfigError, match="output orders has rolled its transaction back"):
        store.save(claim, batch(r(0, 2)), undo)
    assert results(connect) == []
    assert store.save(claim, batch(r(0, 2)), write("once"))


def test_a_batch_without_records_is_noted_and_not_written(store, connect):
    """Its position is where a restart begins."""
    claim = store.claim("me")

    assert store.is_saved(claim, batch(r(5, 5)))
    assert store.positions() == {T0: 5}
    assert not store.save(claim, batch(r(5, 5), r(3, 3, 1)), write("nothing"))
    assert store.positions() == {T0: 5, T1: 3}
    assert results(connect) == []


def test_a_loss_without_records_after_it_is_still_to_be_saved(store, connect):
    """It moves the output over the gap: taken for done, it would have every later batch refused for ever."""
    claim = store.claim("me")
    store.save(claim, batch(r(0, 2)), write("a"))
    lost = [Loss(topic_partition=T0, cause=LossCause.AGED_OUT, wanted=2, earliest=50, latest=50, resumed=50)]

    assert not store.is_saved(claim, batch(r(50, 50), losses=lost))
    assert not store.save(claim, batch(r(50, 50), losses=lost), write("nothing"))
    assert store.is_saved(claim, batch(r(50, 50), losses=lost))
    assert store.save(claim, batch(r(50, 51)), write("b"))
    assert results(connect) == ["a", "b"]


def test_a_first_batch_that_fails_is_not_forgotten(store, connect):
    """Where the output begins is noted before anything is tried, so the second batch is not taken for the first."""
    claim = store.claim("me")
    for _ in range(2):
        store.save_start(claim, batch(r(5, 9), r(0, 3, 1)))

    assert store.positions() == {T0: 5, T1: 0}
    with pytest.raises(OutOfOrder):
        store.save(claim, batch(r(9, 12), r(3, 3, 1)), write("second"))
    assert store.save(claim, batch(r(5, 9), r(0, 3, 1)), write("first"))


def test_an_output_of_a_version_before_does_not_begin_anew(store, connect, tmp_path):
    """That version noted nothing in the stream's log; the next batch notes where the output began."""
    log = OffsetLog(str(tmp_path), "s")

    def save(id_, start, *, noted=True):
        planned = Batch(id=id_, ranges=(r(start, start + 2),), times=(id_,))
        source = types.SimpleNamespace(outputs=lambda: BatchOutputs(log.outputs, planned) if noted else None)
        given, claim = KafkaBatch(planned.ranges, rdd=source), store.claim("me")
        return not store.is_saved(claim, given) and store.save(claim, given, write("a", "b"))

    assert save(0, 4, noted=False)
    assert save(1, 6)
    with connect() as connection:
        connection.execute("DELETE FROM kafka_direct_offsets")  # it failed over to a replica that lacks all

    with pytest.raises(OutOfOrder, match="knows nothing of t-0, where it began at 4, "):
        save(2, 8)


def test_a_start_that_is_noted_elsewhere_meanwhile_is_fine(store, connect):
    """A race over the first row ends with one row."""
    claim, once = store.claim("me"), iter([True])

    def race(statement):
        if statement.startswith("UPDATE") and next(once, False):
            store.save_start(claim, batch(r(5, 9)))

    meddled(connect, race).save_start(claim, batch(r(5, 9)))
    assert store.positions() == {T0: 5}


def test_an_older_driver_is_fenced(store, connect):
    """After another one has claimed the output the first changes nothing, and its error names the other."""
    old = store.claim("process 1 of a")
    store.save(old, batch(r(0, 2)), write("a"))
    new = store.claim("process 2 of b")

    for zombie in (batch(r(2, 4)), batch(r(0, 2)), batch(r(2, 2)), batch(r(0, 4, partition=1))):
        with pytest.raises(Fenced, match=r"belongs to another driver now, process 2 of b, .* must stop") as fenced:
            store.save(old, zombie, write("zombie"))
        assert fenced.value.owner == "process 2 of b"
    assert store.save(new, batch(r(2, 4)), write("b"))
    assert results(connect) == ["a", "b"]
    assert store.positions() == {T0: 4}


def test_an_older_driver_is_fenced_before_anything_was_saved(store, connect):
    """The claim alone decides, also while there is no row to compare."""
    old, _ = store.claim("first"), store.claim("second")

    with pytest.raises(Fenced, match="second"):
        store.save(old, batch(r(0, 2)), write("zombie"))
    assert results(connect) == []


def test_a_batch_out_of_order_is_refused(store, connect):
    """A batch after one that failed is not saved."""
    claim = store.claim("me")
    store.save(claim, batch(r(0, 2)), write("a"))

    with pytest.raises(OutOfOrder):
        store.save(claim, batch(r(4, 6)), write("c"))
    assert results(connect) == ["a"]


def test_copies_of_one_task_save_it_once(store, connect):
    """Many at a time, as speculation and retries make them: one writes, the others see that it is done."""
    claim, answers = store.claim("me"), []
    start = threading.Barrier(6)

    def work(partition):
        start.wait()
        answers.append(store.save(claim, batch(r(0, 2, partition)), write(f"p{partition}")))

    threads = [threading.Thread(target=work, args=(n % 2,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == [False] * 4 + [True] * 2
    assert sorted(results(connect)) == ["p0", "p1"]


class Meddling:
    """A connection before whose nth statement something else happens in the database."""

    def __init__(self, connection, meddle):
        self._connection, self._meddle = connection, meddle

    def cursor(self):
        return _MeddlingCursor(self._connection.cursor(), self._meddle)

    def __getattr__(self, name):
        return getattr(self._connection, name)


class _MeddlingCursor:
    def __init__(self, cursor, meddle):
        self._cursor, self._meddle = cursor, meddle

    def execute(self, statement, values=()):
        self._meddle(statement)
        return self._cursor.execute(statement, values)

    def __getattr__(self, name):
        return getattr(self._cursor, name)


def meddled(connect, meddle):
    """A store whose trial is behind it."""
    store = SqlOffsetStore(connect, "orders", paramstyle="qmark")
    store.positions()
    store._connect = lambda: Meddling(connect(), meddle)
    return store


def fresh(connect, meddle):
    return SqlOffsetStore(lambda: Meddling(connect(), meddle), "orders", paramstyle="qmark")


class Changed:
    """A connection that counts as MySQL's drivers do: a row that stays what it was is none."""

    def __init__(self, connection):
        self._connection = connection

    def cursor(self):
        return _ChangedCursor(self._connection)

    def __getattr__(self, name):
        return getattr(self._connection, name)


class _ChangedCursor:
    def __init__(self, connection):
        self._connection, self._cursor, self.rowcount = connection, connection.cursor(), -1

    def execute(self, statement, values=()):
        before = self._rows() if statement.startswith("UPDATE") else []
        self._cursor.execute(statement, values)
        self.rowcount = len(set(self._rows()) - set(before)) if before else self._cursor.rowcount

    def _rows(self):
        return self._connection.execute("SELECT * FROM kafka_direct_offsets").fetchall()

    def __getattr__(self, name):
        return getattr(self._cursor, name)


def test_a_database_that_counts_changes_only(store, connect):
    """As MariaDB, where nothing could be saved that changes no row first."""
    changed = SqlOffsetStore(lambda: Changed(connect()), "orders", paramstyle="qmark")
    claim = changed.claim("me")

    changed.save_start(claim, batch(r(0, 2), r(0, 2, 1)))
    assert changed.save(claim, batch(r(0, 2)), write("a"))
    assert changed.save(claim, batch(r(0, 2, 1), r(5, 7, 2)), write("b"))
    assert not changed.save(claim, batch(r(0, 2)), write("again"))
    assert (changed.positions(), results(connect)) == ({T0: 2, T1: 2, TopicPartition("t", 2): 7}, ["a", "b"])
    changed.claim("the next one")
    with pytest.raises(Fenced, match="another driver now, the next one"):
        changed.save(claim, batch(r(2, 3)), write("zombie"))


@pytest.mark.parametrize("known", [True, False])
def test_a_race_between_look_and_update_is_judged_anew(store, connect, known):
    """Another transaction has saved the range in between, so nothing is written a second time."""
    claim = store.claim("me")
    if known:
        store.save(claim, batch(r(0, 2)), write("a"))
    raced = batch(r(2, 4)) if known else batch(r(0, 4))
    once = iter([True])

    def race(statement):
        if statement.startswith(f"UPDATE {store.table}") and next(once, False):
            store.save(claim, raced, write("winner"))

    assert not meddled(connect, race).save(claim, raced, write("loser"))
    assert results(connect)[-1] == "winner"
    assert "loser" not in results(connect)


@pytest.mark.parametrize("known", [True, False])
def test_a_driver_that_is_succeeded_between_look_and_update_is_fenced(store, connect, known):
    """The update itself compares the epoch, so nothing of the older driver comes after the claim of the newer one."""
    claim, once = store.claim("old"), iter([True])
    if known:
        store.save(claim, batch(r(0, 2)), write("a"))

    def race(statement):
        if statement.startswith("UPDATE") and next(once, False):
            store.claim("new")

    with pytest.raises(Fenced, match="another driver now, new"):
        meddled(connect, race).save(claim, batch(r(2, 4)), write("zombie"))
    assert results(connect) == ["a"] * known


def test_rows_that_never_rest_are_given_up(store, connect):
    """A row that moves under every attempt means more drivers than one; the attempts are counted."""
    claim = store.claim("me")
    store.save(claim, batch(r(0, 1)), write("a"))

    def shake(statement):
        with connect() as connection:
            next_offset = 1 if statement.startswith("SELECT stream, topic") else 0
            connection.execute(f"UPDATE {store.table} SET next_offset = {next_offset} WHERE partition_id = 0")

    with pytest.raises(Fenced, match="moved 10 times while one batch was to be saved"):
        meddled(connect, shake).save(claim, batch(r(1, 9)), write("never"))
    assert results(connect) == ["a"]


def test_a_start_that_cannot_be_noted_is_given_up(store, connect):
    """The same for a first row that comes and goes."""
    claim = store.claim("me")
    row = f"INSERT INTO {store.table} VALUES ('orders', 't', 0, 0, 0, {claim.epoch}, NULL, '', 0, '')"
    # Before the look, before the drivers' row is locked, and before the second look, where SQLite locks all others out.
    changes = itertools.cycle([f"DELETE FROM {store.table} WHERE partition_id = 0", row, None])

    def shake(_):
        if (change := next(changes)) is not None:
            with connect() as connection:
                connection.execute(change)

    with pytest.raises(Fenced, match="moved 10 times"):
        meddled(connect, shake).save_start(claim, batch(r(0, 9)))


def test_two_that_claim_first_get_an_epoch_each(store, connect):
    """The second waits for the first one's row, and comes after it."""
    store.positions()
    opened, once = [], iter([True])

    def race(statement):
        if statement.startswith("INSERT") and next(once, False):
            opened[-1].rollback()  # else SQLite lets nothing else write; other databases lock no missing row
            store.claim("first")

    def connect_late():
        opened.append(connect())
        return Meddling(opened[-1], race)

    late = SqlOffsetStore(connect, "orders", paramstyle="qmark")
    late.positions()
    late._connect = connect_late
    later = late.claim("second")

    assert later.epoch == 2
    assert connect().execute(f"SELECT owner FROM {store.table}").fetchall() == [("second",)]


def test_a_claim_that_cannot_be_written_says_why(store, connect):
    """An error of the database that is no race comes out as it is."""
    store.positions()

    def refuse(statement):
        if statement.startswith("INSERT"):
            raise sqlite3.OperationalError("not allowed")

    with pytest.raises(sqlite3.OperationalError, match="not allowed"):
        meddled(connect, refuse).claim("me")


def test_the_table_is_made_once(connect):
    """By the first process. A second one that tries at the same time uses the table of the first."""
    other = SqlOffsetStore(connect, "orders")

    def race(statement):
        if statement.startswith("CREATE"):
            other.positions()

    assert fresh(connect, race).positions() == {}


def test_a_table_that_cannot_be_made_says_why(connect):
    """The database's own error comes out."""
    with pytest.raises(ZeroDivisionError):
        fresh(connect, lambda statement: 1 / 0 if statement.startswith("CREATE") else None).positions()


def test_outputs_do_not_meet(store, connect):
    """Another name is another output in the same table, and another table is another world."""
    store.save(store.claim("me"), batch(r(0, 2)), write("a"))
    second = SqlOffsetStore(connect, "invoices")
    third = SqlOffsetStore(connect, "orders", table="offsets_too")

    assert second.positions() == third.positions() == {}
    assert second.save(second.claim("me"), batch(r(0, 2)), write("b"))
    assert store.positions() == {T0: 2}


def test_of_drivers_of_one_log_its_owner_has_the_output(store):
    """The newer claim to the log wins, whoever comes first; else two drivers could end each other."""
    store.claim("owner", LogOwner("log", 2))
    with pytest.raises(Fenced, match="belongs to another driver now, owner") as fenced:
        store.claim("older", LogOwner("log", 1))
    assert fenced.value.owner == "owner"
    newest = store.claim("newest", LogOwner("log", 3))
    assert store.save(newest, batch(r(0, 2)), write("a"))


def test_an_owner_of_the_log_that_comes_second_takes_over(store):
    """The usual order."""
    older = store.claim("older", LogOwner("log", 1))
    store.claim("owner", LogOwner("log", 2))
    with pytest.raises(Fenced, match="now, owner"):
        store.save(older, batch(r(0, 2)), write("a"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LogOwner("log", 9), LogOwner("another", 1)),
        (LogOwner("log", 9), None),
        (None, LogOwner("log", 1)),
        (None, None),
        (LogOwner("log", 9), LogOwner("log", 9)),
    ],
)
def test_of_drivers_of_other_logs_the_newest_has_the_output(store, first, second):
    """A checkpoint that was thrown away is another log, and its epochs begin at 1 again; without one there is none."""
    older = store.claim("older", first)
    newer = store.claim("newer", second)

    with pytest.raises(Fenced, match="now, newer"):
        store.save(older, batch(r(0, 2)), write("a"))
    assert store.save(newer, batch(r(0, 2)), write("b"))


def test_a_claim_that_comes_between_look_and_change_is_seen(store, connect):
    """The owner of the log claims while an older driver looks."""
    store.claim("first", LogOwner("log", 1))
    once = iter([True])

    def race(statement):
        if "epoch = epoch + 1" in statement and next(once, False):
            store.claim("owner", LogOwner("log", 3))

    with pytest.raises(Fenced, match="now, owner"):
        meddled(connect, race).claim("older", LogOwner("log", 2))


def test_positions_say_of_which_topics_they_are(store):
    """So that createDirectStream sees that a topic was made anew; rows of an earlier version do not know it."""
    claim = store.claim("me")
    store.save(claim, KafkaBatch((r(0, 2),), origin=Origin(topic_ids={"t": "id-of-t"})), write("a"))
    store.save(claim, KafkaBatch((OffsetRange("u", 0, 0, 3),)), write("b"))

    positions = store.positions()
    assert positions == {T0: 2, TopicPartition("u", 0): 3}
    assert positions.topic_ids == {T0: "id-of-t"}


class Busy(sqlite3.DatabaseError):
    """What a driver raises for a serialization failure."""

    sqlstate = "40001"


@pytest.mark.parametrize("moment", ["UPDATE", "write", "commit"])
def test_a_transaction_that_came_second_is_done_again(store, connect, moment):
    """Wherever the database says so. What was written until then is rolled back."""
    claim, failures, calls = store.claim("me"), iter([True, True]), []
    store.save_start(claim, batch(r(0, 2)))

    def fail(now):
        if now.startswith(moment) and next(failures, False):
            raise Busy

    def write_row(cursor):
        calls.append(cursor)
        write("a")(cursor)
        fail("write")

    def connect_failing():
        connection = Meddling(connect(), fail)
        commit = connection.commit
        connection.commit = lambda: (fail("commit"), commit())
        return connection

    busy = meddled(connect, fail)
    busy._connect = connect_failing
    assert busy.save(claim, batch(r(0, 2)), write_row)
    assert results(connect) == ["a"]
    assert len(calls) == (1 if moment == "UPDATE" else 3)


def test_what_cannot_be_written_again_is_not(store, connect):
    """Rows that are consumed: the error comes out, nothing is saved, and Spark runs the task again."""
    claim, calls, rows = store.claim("me"), [], Rows("ab", kept=1)

    def write_row(cursor):
        calls.append(list(rows))
        raise Busy

    with pytest.raises(Busy):
        store.save(claim, batch(r(0, 2)), write_row, rows)
    assert calls == [["a", "b"]]
    assert store.save(claim, batch(r(0, 2)), write("a"))


def test_a_database_that_is_always_busy_says_so_itself(store, monkeypatch):
    """After a bounded number of attempts, with its own error: nobody has taken the output over."""
    monkeypatch.setattr("kafka_direct.sinks.sql.store._pause", lambda _: 0)
    claim, calls = store.claim("me"), []

    def write_row(cursor):
        calls.append(cursor)
        raise Busy

    with pytest.raises(Busy):
        store.save(claim, batch(r(0, 2)), write_row)
    assert len(calls) == 10


def test_a_pause_is_short_and_never_the_same():
    """Transactions that met once shall not meet again."""
    pauses = [_pause(attempt) for attempt in range(1, 100)]

    assert _pause(0) == 0
    assert len(set(pauses)) == len(pauses)
    assert max(pauses) <= 0.5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"connect": "results.db"}, "connect must be a function"),
        ({"name": ""}, "1 to 200 characters"),
        ({"name": "x" * 201}, "1 to 200 characters"),
        ({"name": None}, "1 to 200 characters"),
        ({"table": "x; DROP TABLE y"}, "plain SQL name"),
        ({"table": ""}, "plain SQL name"),
        ({"paramstyle": "question"}, "none of DB-API's"),
    ],
)
def test_what_cannot_be_meant_is_refused(connect, change, said):
    """Before any connection is opened."""
    arguments = {"connect": connect, "name": "orders"} | change
    with pytest.raises(ConfigError, match=said):
        SqlOffsetStore(**arguments)
    assert issubclass(ArgumentTypeError, ConfigError)


@pytest.mark.parametrize(
    ("style", "marks"), [("qmark", "?, ?"), ("format", "%s, %s"), ("numeric", ":1, :2"), ("named", ":1, :2")]
)
def test_parameters_are_marked_as_the_driver_wants_them(connect, style, marks):
    """Each of DB-API's styles takes a sequence."""
    seen = []

    def note(statement):
        if "stream = " in statement or "INSERT" in statement:
            seen.append(statement)
            raise ZeroDivisionError

    store = SqlOffsetStore(lambda: Meddling(connect(), note), "orders", paramstyle=style)
    with pytest.raises(ZeroDivisionError):
        store.positions()
    assert f"VALUES ({marks}, " in seen[0]


def test_a_driver_that_does_not_say_its_style_needs_it_given():
    """A pool's wrapper has a module of its own."""
    with pytest.raises(ConfigError, match="pass paramstyle="):
        find_paramstyle(types.SimpleNamespace())
