"""The SQL store on real servers, with their default and their strictest isolation: each record once."""

import sys
import threading
from collections import Counter
from pathlib import Path

import psycopg
import pymysql
import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

import databases
from databases import batch

from kafka_direct.errors import ConfigError, Fenced, OutOfOrder
from kafka_direct.offsets import LogOwner, TopicPartition
from kafka_direct.sinks.sql.dialect import came_first
from kafka_direct.sinks.sql.rows import Rows

T0 = TopicPartition("t", 0)
OLD_TABLE = (
    "CREATE TABLE kafka_direct_offsets (stream VARCHAR(200) NOT NULL, topic VARCHAR(249) NOT NULL, partition_id "
    "INTEGER NOT NULL, first_offset BIGINT NOT NULL, next_offset BIGINT NOT NULL, epoch BIGINT NOT NULL, "
    "owner VARCHAR(200), PRIMARY KEY (stream, topic, partition_id))"
)


@pytest.fixture(params=[*databases.SERVERS, *databases.STRICT])
def database(request, tmp_path):
    return databases.database(request, tmp_path, request.param)


@pytest.fixture(params=databases.SERVERS)
def server(request, tmp_path):
    """As it is, where the isolation changes nothing."""
    return databases.database(request, tmp_path, request.param)


def at_once(count, work):
    """Run `work(n)` in threads that begin together; the errors that came out."""
    start, errors = threading.Barrier(count), []

    def run(n):
        start.wait()
        try:
            work(n)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_each_batch_is_saved_once_and_in_order(database):
    """Replays are skipped, failures leave nothing, gaps are refused, and an older driver is fenced."""
    store = database.store()
    old = store.claim("old")
    assert store.positions() == {}
    assert store.save(old, batch(0, 2), database.write("a", "b"))
    assert not store.save(old, batch(0, 2), database.write("again"))

    def fail(cursor):
        database.write("half")(cursor)
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        store.save(old, batch(2, 3), fail)
    with pytest.raises(OutOfOrder):
        store.save(old, batch(3, 4), database.write("too early"))
    new = database.store().claim("new")
    with pytest.raises(Fenced, match="belongs to another driver now, new"):
        store.save(old, batch(2, 3), database.write("zombie"))
    assert store.save(new, batch(2, 3), database.write("c"))
    assert database.results() == ["a", "b", "c"]
    assert store.positions() == {T0: 3}


@pytest.mark.parametrize("is_known", [True, False])
def test_copies_of_tasks_at_the_same_time_write_once(database, is_known):
    """Four copies of the tasks of two partitions, three batches one after the other: Spark runs a failed task again."""
    store = database.store()
    claim, answers = store.claim("me"), Counter()
    if is_known:
        store.save_start(claim, batch(0, 2, 0))
        store.save_start(claim, batch(0, 2, 1))

    for start in (0, 2, 4):

        def work(n, start=start):
            partition, name = n % 2, f"{n % 2}-{start}"
            copy, gone = database.store(), Rows("ab", kept=1)
            list(gone)  # no attempt has them again
            for _ in range(4):  # spark.task.maxFailures
                try:
                    saved = copy.save(claim, batch(start, start + 2, partition), database.write(name), gone)
                except Exception as error:
                    if not came_first(error):
                        raise
                else:
                    answers[name] += saved
                    break

        assert at_once(8, work) == []
    assert database.results() == sorted(answers)
    assert set(answers.values()) == {1}
    assert len(answers) == 6


def test_the_driver_writes_again_what_came_second(database):
    """With rows that can be written again, no conflict comes out, however many meet."""
    store = database.store()
    claim = store.claim("me")

    def work(n):
        name = f"{n % 3}"
        database.store().save(claim, batch(0, 2, n % 3), database.write(name))

    assert at_once(9, work) == []
    assert database.results() == ["0", "1", "2"]


def test_two_drivers_at_the_same_time_write_each_batch_once(database):
    """Each begins where the results end. Of the two the newer one goes on, and the older one is fenced."""
    epochs, stopped, first = [], [], threading.Event()

    def drive(n):
        store = database.store()
        if n > 0:
            first.wait()
        claim = store.claim(f"driver {n}")
        epochs.append(claim.epoch)
        start = store.positions().get(T0, 0)
        for offset in range(start, start + 10):
            try:
                store.save_start(claim, batch(offset, offset + 1))
                store.save(claim, batch(offset, offset + 1), database.write(f"{offset:02}"))
            except Fenced:
                stopped.append(claim.epoch)
                return
            finally:
                first.set()

    assert at_once(3, drive) == []
    count = len(database.results())
    assert database.results() == [f"{n:02}" for n in range(count)]
    assert database.store().positions() == {T0: count}
    assert max(epochs) not in stopped


def test_claims_at_the_same_time_get_an_epoch_each(database):
    """Also the very first ones, which make the table."""
    epochs = []

    assert at_once(4, lambda n: epochs.append(database.store().claim(f"driver {n}").epoch)) == []
    assert sorted(epochs) == [1, 2, 3, 4]


def test_of_two_drivers_of_one_log_its_owner_has_the_output(database):
    """A newer claim to the log wins, whoever comes first. Of drivers of other logs, or none, the newest wins."""
    store = database.store()
    assert store.claim("second", LogOwner("log", 2)).epoch == 1
    with pytest.raises(Fenced, match="belongs to another driver now, second"):
        store.claim("first", LogOwner("log", 1))
    assert store.claim("second again", LogOwner("log", 2)).epoch == 2
    assert store.claim("other", LogOwner("another log", 1)).epoch == 3
    assert store.claim("none").epoch == 4
    assert store.claim("first", LogOwner("log", 1)).epoch == 5


def test_names_that_differ_in_case_or_blanks_are_others(server):
    """For outputs and for topics."""
    for name in ("orders", "Orders", "orders ", "órders"):
        store = server.store(name)
        claim = store.claim(name)
        for topic in ("t", "T"):
            assert store.save(claim, batch(0, 2, topic=topic), server.write(f"{name}/{topic}"))
            assert not store.save(claim, batch(0, 2, topic=topic), server.write("again"))
        assert store.positions() == {T0: 2, TopicPartition("T", 0): 2}
    assert len(server.results()) == 8


def test_an_old_table_that_mixes_names_up_is_safe(mariadb):
    """What another name has is never taken for this one's; the two that would share a row are refused."""
    database = (
        databases.Database(lambda: pymysql.connect(**address), "%s") if (address := mariadb.new_database()) else 0
    )
    database.run(OLD_TABLE + " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    store = database.store()
    claim = store.claim("me")
    assert store.save(claim, batch(0, 2), database.write("a"))
    assert not store.save(claim, batch(0, 2), database.write("again"))

    exact = r"MODIFY stream VARCHAR\(200\) COLLATE utf8mb4_nopad_bin NOT NULL, MODIFY topic"
    for name in ("Orders", "orders "):
        assert database.store(name).positions() == {}
        with pytest.raises(ConfigError, match=f"'{name}' and 'orders' for one name, .* run ALTER TABLE .* {exact}"):
            database.store(name).claim("me too")
    with pytest.raises(ConfigError, match=f"'T' and 't' for one name, .*{exact}") as refused:
        store.save(claim, batch(0, 2, topic="T"), database.write("T"))
    database.run(str(refused.value).partition("run ")[2].partition(", and start")[0])
    assert store.save(claim, batch(0, 2, topic="T"), database.write("T"))
    assert database.results() == ["T", "a"]


def test_a_table_of_the_version_before_is_brought_up_to_date(server):
    """Once, whichever of the drivers comes first, and the version before can go on with it."""
    server.run(OLD_TABLE)
    server.run("INSERT INTO kafka_direct_offsets VALUES ('orders', '', -1, 0, 4, 7, 'old')")
    server.run("INSERT INTO kafka_direct_offsets VALUES ('orders', 't', 0, 0, 2, 7, NULL)")

    epochs = []
    assert at_once(3, lambda n: epochs.append(server.store().claim(f"driver {n}").epoch)) == []
    assert sorted(epochs) == [8, 9, 10]
    store = server.store()
    assert store.save(store.claim("me"), batch(2, 4), server.write("a"))
    columns = "stream, topic, partition_id, first_offset, next_offset, epoch"
    server.run(f"INSERT INTO kafka_direct_offsets ({columns}) VALUES ('orders', 't', 1, 0, 2, 11)")
    assert store.positions() == {T0: 4, TopicPartition("t", 1): 2}


def limited(request, server, rights):
    """A database with an old table, and how a user who may not change tables connects to it."""
    if server == "postgres":
        address = request.getfixturevalue("postgres").new_database()
        database = databases.Database(lambda: psycopg.connect(address), "%s")
        user = f"limited_{address[-12:]}"
        database.run(f"CREATE ROLE {user} LOGIN")
        grant = f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {user}"
        address_of_user = f"{address} user={user}"
        return database, grant, lambda: psycopg.connect(address_of_user)
    address = request.getfixturevalue("mariadb").new_database()
    user = f"limited_{address['database'][-12:]}"
    request.getfixturevalue("mariadb").run(f"CREATE USER {user}@'%'")
    database = databases.Database(lambda: pymysql.connect(**address), "%s")
    grant = f"GRANT {rights} ON {address['database']}.* TO {user}@'%'"
    return database, grant, lambda: pymysql.connect(**{**address, "user": user})


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_a_user_who_may_not_change_tables_is_told_the_statements(request, server):
    """And needs no such right once the table is as it must be."""
    database, grant, connect = limited(request, server, "SELECT, INSERT, UPDATE, DELETE")
    database.run(OLD_TABLE)
    database.run(grant)
    store = database.store(connect=connect)

    with pytest.raises(ConfigError, match=r"of an earlier version .* have its owner run: ALTER TABLE .*; ALTER TABLE"):
        store.claim("me")
    for statement in store.upgrades:
        database.run(statement)
    assert store.save(store.claim("me"), batch(0, 2), database.write("a"))


@pytest.mark.parametrize("server", databases.SERVERS)
def test_a_connection_that_commits_by_itself_is_refused(request, tmp_path, server):
    """By each driver's own way to say so."""
    database = databases.database(request, tmp_path, server)

    def connect():
        connection = database.connect()
        if server == "sqlite":
            connection.isolation_level = None
        elif server == "postgres":
            connection.autocommit = True
        else:
            connection.autocommit(True)
        return connection

    store = database.store(connect=connect)
    for _ in range(2):
        with pytest.raises(ConfigError, match="the connection commits by itself"):
            store.claim("me")
    assert database.run("SELECT * FROM kafka_direct_offsets") == []
    store = database.store()
    assert store.save(store.claim("me"), batch(0, 2), database.write("a"))


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_a_table_of_progress_without_transactions_is_refused(mariadb, engine):
    """Its rows would stay although the results are rolled back."""
    address = mariadb.new_database()
    database = databases.Database(lambda: pymysql.connect(**address), "%s")
    database.run(f"{database.store().schema} ENGINE={engine}")

    with pytest.raises(ConfigError, match=f"of the engine {engine}, which has no transactions, .*ENGINE=InnoDB"):
        database.store().claim("me")
    assert database.run("SELECT * FROM kafka_direct_offsets") == []


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_results_in_a_table_without_transactions_are_refused(mariadb, engine):
    """At the first batch of a process, before its progress is saved. Temporary tables of any engine are fine."""
    address = mariadb.new_database()
    database = databases.Database(lambda: pymysql.connect(**address), "%s")
    database.run(f"CREATE TABLE plain (value VARCHAR(100)) ENGINE={engine}")
    store = database.store()
    claim = store.claim("me")

    def write_plain(cursor):
        cursor.execute("INSERT INTO results VALUES ('half')")
        cursor.execute("INSERT INTO plain VALUES ('half')")

    with pytest.raises(ConfigError, match=r"has changed a table without transactions, .* ENGINE=InnoDB"):
        store.save(claim, batch(0, 2), write_plain)
    assert store.positions() == {}

    def stage(cursor):
        cursor.execute(f"CREATE TEMPORARY TABLE stage (value VARCHAR(100)) ENGINE={engine}")
        cursor.execute("INSERT INTO stage VALUES ('a')")
        cursor.execute("INSERT INTO results SELECT value FROM stage")

    assert store.save(claim, batch(0, 2), stage)
    assert database.results() == ["a"]
