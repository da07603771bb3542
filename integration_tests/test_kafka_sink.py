"""KafkaSink: records and source offsets in one transaction, whatever is tried again, copied or fenced."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from kafka_output import Driver, Output, r
from killed_job import kill_session

from kafka_direct.broker import ConsumerGroup
from kafka_direct.broker.write import transaction
from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import ArgumentTypeError, ConfigError, Fenced, OutOfOrder
from kafka_direct.offsets import LogOwner, Loss, LossCause, Origin, TopicPartition
from kafka_direct.options import ClientParams
from kafka_direct.sinks import KafkaRecord
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.testing import wait_until


@pytest.fixture
def output(kafka, kafka_topic):
    return Output(kafka.bootstrap_servers, kafka_topic(partitions=2))


def as_record(offset):
    return "k", str(offset)


# -- the transaction itself


def test_records_and_offsets_arrive_together(output, kafka_topic):
    """A range is written once; its replay is seen to be there, and its records are not computed."""
    source = kafka_topic()
    target = output.driver()

    def unwanted():
        raise AssertionError("a replay was computed")
        yield

    assert target.write([r(source, 0, 2)], [("k", "a"), (None, b"b")], batch_id=7)
    assert not target.write([r(source, 0, 2)], unwanted())
    assert sorted(output.values()) == ["a", "b"]
    assert target.store.positions([TopicPartition(source, 0)]) == {TopicPartition(source, 0): 2}
    with pytest.raises(OutOfOrder):
        target.write([r(source, 4, 5)], unwanted())


def test_the_entries_of_other_versions_can_be_read(output, kafka_topic):
    """The groups outlive an upgrade of this package: their names, their offsets and the metadata."""
    source, driver = kafka_topic(), output.driver("process 1 of a")
    name, claim = driver.store.name, driver.claim

    def committed(group, topic):
        settled = {"group.id": group, "isolation.level": "read_committed"}  # the answer waits for the commit's marker
        params, place = ClientParams.parse(output.servers | settled), TopicPartition(topic, 0)
        return ConsumerGroup(params).progress([place])[place]

    number, note = committed(f"{name}-driver", output.topic)
    assert (number, json.loads(note)) == (
        claim.epoch,
        {"first": 0, "owner": "process 1 of a", "at": claim.epoch, "past": []},
    )
    driver.store.take_over(claim, KafkaBatch((r(source, 3, 5),)))
    assert committed(name, source) == (3, f'{{"first": 3, "epoch": {claim.epoch}}}')
    driver.write([r(source, 3, 5)], [("k", "v")], batch_id=7)
    assert committed(name, source) == (5, f'{{"first": 3, "batchId": 7, "epoch": {claim.epoch}}}')
    driver.store.save_query_batch(claim, "q", 4, [("k", "v")])
    stored = f'{{"first": 4, "batchId": 4, "epoch": {claim.epoch}}}'
    assert committed(f"{name}-batches-q", output.topic) == (5, stored)


def test_a_loss_without_records_after_it_is_still_to_be_written(output, kafka_topic):
    """It moves the output over the gap: taken for done, it would have every later batch refused for ever."""
    source = kafka_topic()
    target, partition = output.driver(), TopicPartition(source, 0)
    assert target.write([r(source, 0, 2)], [("k", "a")])
    gap = [r(source, 50, 50)]
    lost = [Loss(topic_partition=partition, cause=LossCause.AGED_OUT, wanted=2, earliest=50, latest=50, resumed=50)]

    assert not target.is_saved(gap, lost)
    assert not target.write(gap, [], losses=lost)
    assert target.is_saved(gap, lost)
    assert target.write([r(source, 50, 51)], [("k", "b")])
    assert sorted(output.values()) == ["a", "b"]


def test_after_brokers_have_forgotten_an_epoch_the_next_is_newer(output):
    """A driver's claim is not committed again, and is gone after a week: a count would begin at 1 again."""
    old = output.driver("before")
    forgotten = replace(old.store, name=f"{old.store.name}-forgotten")

    assert Driver.of(forgotten, "after", now=old.claim.epoch + 7 * 86_400).claim.epoch > old.claim.epoch


@pytest.mark.parametrize("now", [0, 10**9])
def test_each_driver_is_newer_than_the_one_before(output, now):
    """Also if its clock is behind."""
    first = output.driver().claim

    assert Driver.of(output.store(), now=now).claim.epoch == first.epoch + 1


def test_what_fails_half_way_is_not_there(output, kafka_topic):
    """Neither records nor offsets; the next attempt writes all."""
    source = kafka_topic()
    target = output.driver()

    def failing():
        yield ("k", "half")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        target.write([r(source, 0, 2)], failing())
    assert output.values() == []
    assert target.store.positions([TopicPartition(source, 0)]) == {TopicPartition(source, 0): 0}
    assert target.write([r(source, 0, 2)], [("k", "whole")])
    assert output.values() == ["whole"]


@pytest.mark.parametrize("slow_one_ends", ["before the copy commits", "after the copy has committed"])
def test_of_two_copies_of_a_task_one_writes(output, kafka_topic, slow_one_ends):
    """Speculation, or a worker that was believed dead: the older copy is fenced, whatever it has sent."""
    source = kafka_topic()
    target = output.driver()
    is_open, go_on, fenced = threading.Event(), threading.Event(), []

    def slow():
        yield ("k", "slow")
        is_open.set()
        go_on.wait()

    def write_slowly():
        try:
            target.write([r(source, 0, 1)], slow())
        except Fenced as error:
            fenced.append(str(error))

    thread = threading.Thread(target=write_slowly)
    thread.start()
    is_open.wait()

    def quick():
        yield ("k", "quick")
        if slow_one_ends.startswith("before"):
            go_on.set()
            thread.join()

    assert target.write([r(source, 0, 1)], quick())
    go_on.set()
    thread.join()

    assert output.values() == ["quick"]
    assert "has a newer producer" in fenced[0]


@pytest.fixture
def elsewhere(output):
    """The same output, written from another worker."""
    params = ClientParams.parse(output.servers | {"client.id": "another worker"})
    return lambda driver: Driver(replace(driver.store, params=params), driver.claim)


def test_what_an_older_copy_commits_while_it_is_fenced_is_seen(output, kafka_topic, elsewhere, monkeypatch):
    """Progress is asked after taking over: before, it would miss what the older one commits meanwhile."""
    source = kafka_topic()
    target = output.driver()
    target.store.take_over(target.claim, KafkaBatch((r(source, 0, 1),)))
    transaction._producers.clear()
    once = iter([True])

    def take_over(params, writer):
        if next(once, False):
            assert elsewhere(target).write([r(source, 0, 1)], [("k", "first")])
        return TransactionalProducer(params, writer)

    monkeypatch.setattr(transaction, "TransactionalProducer", take_over)
    assert not target.write([r(source, 0, 1)], [("k", "second")])
    assert output.values() == ["first"]


def test_a_replaced_producer_judges_anew(output, kafka_topic, elsewhere, monkeypatch):
    """Who fenced the kept one after the look at the progress may have written the very range."""
    source = kafka_topic()
    target = output.driver()
    assert target.write([r(source, 0, 1)], [("k", "a")])
    begin, once = TransactionalProducer.begin, iter([True])

    def begin_late(*arguments):
        if next(once, False):
            assert elsewhere(target).write([r(source, 1, 2)], [("k", "first")])
        begin(*arguments)

    monkeypatch.setattr(TransactionalProducer, "begin", begin_late)
    assert not target.write([r(source, 1, 2)], [("k", "second")])
    assert sorted(output.values()) == ["a", "first"]


def test_positions_wait_for_a_transaction_that_is_open(output, kafka_topic):
    """A successor that starts where a dying driver's last transaction began would run into it."""
    source = kafka_topic()
    target, partition = output.driver(), TopicPartition(source, 0)
    is_open, go_on, answers = threading.Event(), threading.Event(), []

    def slow():
        yield ("k", "slow")
        is_open.set()
        go_on.wait()

    writer = threading.Thread(target=lambda: target.write([r(source, 0, 1)], slow()))
    writer.start()
    is_open.wait()
    reader = threading.Thread(target=lambda: answers.append(output.store().positions([partition])))
    reader.start()
    reader.join(0.5)  # time enough for a wrong answer
    go_on.set()
    writer.join()
    reader.join()

    assert answers == [{partition: 1}]


def test_a_kept_producer_that_was_fenced_is_replaced(output, kafka_topic, elsewhere):
    """A partition that another worker had meanwhile costs a new producer, not a failed task."""
    source = kafka_topic()
    target = output.driver()

    for number, worker in enumerate((target, elsewhere(target), target, elsewhere(target))):
        assert worker.write([r(source, number, number + 1)], [("k", str(number))])
    assert sorted(output.values()) == list("0123")


def test_a_second_driver_stops_the_first(output, kafka_topic):
    """The newest claim works; an older driver is told the newer one's name, by its next look and by its tasks."""
    source = kafka_topic()
    old = output.driver("process 1 of a")
    assert old.write([r(source, 0, 1)], [("k", "a")])
    new = output.driver("process 2 of b")
    assert new.write([r(source, 1, 2)], [("k", "b")])

    for act in (
        lambda: old.store.drivers.require_newest(old.claim),
        lambda: old.write([r(source, 2, 3)], [("k", "zombie")]),
    ):
        with pytest.raises(Fenced, match=r"belongs to another driver now, process 2 of b, .* must stop"):
            act()
    new.store.drivers.require_newest(new.claim)
    assert sorted(output.values()) == ["a", "b"]


def test_a_task_of_an_older_driver_ends_no_transaction_of_a_newer_one(output, kafka_topic):
    """Frozen before it had a producer, and thawed while its successor writes the same partition."""
    source = kafka_topic()
    old, new = output.driver("old"), output.driver("new")

    def records():
        yield ("k", "new")
        with pytest.raises(Fenced, match="belongs to another driver now, new"):
            old.write([r(source, 0, 1)], [("k", "old")])

    assert new.write([r(source, 0, 1)], records())
    assert output.values() == ["new"]


def test_a_kept_producer_of_an_older_driver_writes_nothing_any_more(output, kafka_topic):
    """Though the newer one has written nothing yet: it would find the output moved under its own start."""
    source = kafka_topic()
    old = output.driver("old")
    assert old.write([r(source, 0, 1)], [("k", "old")])
    new = output.driver("new")

    with pytest.raises(Fenced, match="belongs to another driver now, new"):
        old.write([r(source, 1, 2)], [("k", "too late")])
    assert new.write([r(source, 1, 3)], [("k", "new")])
    assert sorted(output.values()) == ["new", "old"]


def test_a_task_of_an_older_driver_writes_nothing_after_a_newer_one_has_come(output, kafka_topic, monkeypatch):
    """Also if that comes after its last look, and its tasks have had their producers by then."""
    source = kafka_topic()
    old, once = output.driver("old"), iter([True])

    def take_over(params, writer):
        if source in writer and next(once, False):
            output.driver("new")
        return TransactionalProducer(params, writer)

    monkeypatch.setattr(transaction, "TransactionalProducer", take_over)
    with pytest.raises(Fenced, match="belongs to another driver now, new"):
        old.write([r(source, 0, 1)], [("k", "old")])
    assert output.values() == []


def test_a_long_transaction_is_given_up_in_time(output, kafka_topic):
    """Before the brokers abort it, with the setting that allows more; nothing of it is visible."""
    source = kafka_topic()
    target = output.driver(**{"transaction.timeout.ms": 2000})

    def endless():
        while True:
            yield ("k", "late")

    with pytest.raises(
        ConfigError, match=r"records of \S+ took \d s, and the brokers abort .* raise transaction\.timeout"
    ):
        target.write([r(source, 0, 9)], endless())
    assert output.values() == []
    assert target.store.positions([TopicPartition(source, 0)]) == {TopicPartition(source, 0): 0}


def test_a_transaction_whose_end_comes_late_is_given_up(output, kafka_topic):
    """Also when no record comes any more: the commit looks at the time."""
    source = kafka_topic()

    def hesitant():
        yield ("k", "early")
        time.sleep(1.7)  # of the 2 s a fifth is left for the commit

    target = output.driver(**{"transaction.timeout.ms": 2000})
    with pytest.raises(ConfigError, match=r"its records of \S+ took"):
        target.write([r(source, 0, 9)], hesitant())
    assert output.values() == []


@pytest.mark.parametrize("wrong", ["text", ("one", "two", "three"), (1, "number"), KafkaRecord(value={"a": 1})])
def test_what_is_no_record_is_refused(output, kafka_topic, wrong):
    """The error says what is wanted; nothing is written."""
    source = kafka_topic()
    with pytest.raises(ArgumentTypeError, match="to write"):
        output.driver().write([r(source, 0, 2)], [("k", "good"), wrong])
    assert output.values() == []


def test_a_record_may_say_everything(output, kafka_topic):
    """Topic, partition, time and headers of its own."""
    source, other = kafka_topic(), kafka_topic(partitions=3)
    stamp = int(time.time() * 1000) - 60_000  # not long ago, or retention may take the record before it is read
    record = KafkaRecord("v", "k", other, 2, stamp, [("h", b"1")])
    output.driver().write([r(source, 0, 1)], [record])

    (message,) = Output(output.servers["bootstrap.servers"], other).records()
    assert (message.partition(), message.timestamp()[1], message.headers()) == (2, stamp, [("h", b"1")])


# -- the sink


def test_a_batch_is_computed_once(output, kafka_topic, batch_rdd):
    """Its replay is recognised before; a second output of the same sink is refused."""
    source, sink = kafka_topic(), output.sink()
    batch = batch_rdd(r(source, 0, 1))

    def unwanted(offset):
        raise AssertionError("a replay was computed")

    assert sink.save(batch.map(as_record))
    with pytest.raises(ConfigError, match="saved to twice in one batch"):
        sink.save(batch)
    assert not output.sink().save(batch_rdd(r(source, 0, 1)).map(unwanted))
    assert output.values() == ["0"]


def test_a_sink_looks_for_its_successor_before_each_batch(output, kafka_topic, batch_rdd):
    """Also before that has written anything."""
    source, sink = kafka_topic(), output.sink()
    assert sink.save(batch_rdd(r(source, 0, 1)).map(as_record))
    output.driver("the second driver")

    with pytest.raises(Fenced, match="belongs to another driver now, the second driver"):
        sink.save(batch_rdd(r(source, 1, 2)).map(as_record))
    assert output.values() == ["0"]


def test_of_two_copies_of_a_job_the_one_that_owns_the_log_goes_on(output, kafka_topic, batch_rdd):
    """The older one comes to its first save after the newer one: the log ends it, and so does the sink, never both."""
    source = kafka_topic()

    def save(sink, start, epoch):
        rdd = batch_rdd(r(source, start, start + 1))
        rdd.origin = lambda: Origin(owner=LogOwner("the log", epoch))
        return sink.save(rdd.map(as_record))

    older, newer = output.sink(), output.sink()
    assert save(newer, 0, 2)
    with pytest.raises(Fenced, match="belongs to another driver now"):
        save(older, 0, 1)
    assert save(newer, 1, 2)
    assert save(output.sink(), 2, 3)
    assert sorted(output.values()) == ["0", "1", "2"]


def test_batches_of_another_query_are_others(sc, output):
    """A query with a new checkpoint counts from 0 again; an older driver is fenced."""
    frame, sink = SparkSession(sc).createDataFrame([("v",)], ["value"]), output.sink()

    def save(query, batch_id):
        sc.setLocalProperty("sql.streaming.queryId", query)
        try:
            return sink.save_batch(frame, batch_id)
        finally:
            sc.setLocalProperty("sql.streaming.queryId", None)

    assert [save("one", 0), save("two", 0), save("one", 0)] == [True, True, False]
    output.driver("the second driver")
    with pytest.raises(Fenced, match="the second driver"):
        save("one", 1)
    assert output.values() == ["v", "v"]


def test_an_accepted_loss_is_stepped_over_in_the_workers(sc, output, kafka_topic, batch_rdd):
    """Whether or not records follow it."""
    source = kafka_topic()
    steps = [(0, 2, None), (50, 52, 2), (60, 60, 52), (60, 61, None)]
    sink, written = output.sink(), []
    for start, until, wanted in steps:
        rdd = batch_rdd(r(source, start, until), wanted)
        written.append(sink.save_partitions(rdd.map(lambda n: ("k", str(n)))))
        with pytest.raises(ConfigError, match="saved to twice in one batch"):
            sink.save_partitions(rdd)

    assert written == [1, 1, 0, 1]
    assert sorted(output.values()) == ["0", "1", "50", "51", "60"]
    assert sink.positions([source]) == {TopicPartition(source, 0): 61}


# -- in streams


def test_the_output_alone_is_enough(output, run_stream, kafka_topic, kafka_produce):
    """With no checkpoint a stream goes on where its output ends, and a failed attempt of a task is none."""
    topic, produced = kafka_topic(partitions=3), []
    for round_ in range(2):
        values = [f"{round_}-{n}" for n in range(200)]
        kafka_produce(topic, values, keys=values)
        produced += values
        sink = output.sink()

        def fail_once(row):
            from pyspark import TaskContext

            if row[1].endswith("-77") and TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")
            return row

        failures = run_stream(
            topic,
            lambda rdd, sink=sink: sink.save_partitions(rdd.map(fail_once)),
            lambda wanted=200 * (round_ + 1): len(output.values()) >= wanted,
            from_offsets=sink.positions([topic]),
        )
        assert failures == []
        assert Counter(output.values()) == Counter(produced)


def test_a_replayed_batch_is_skipped(output, run_stream, kafka_topic, kafka_produce, tmp_path):
    """A batch that fails after its transactions are committed runs again at the next start, and is recognised."""
    topic, answers, first, second = kafka_topic(partitions=2), [], output.sink(), output.sink()
    kafka_produce(topic, [str(n) for n in range(50)], keys=[str(n) for n in range(50)])

    def save_and_fail(rdd):
        first.save_partitions(rdd)
        raise RuntimeError("the second output fails")

    def save(rdd):
        answers.append((rdd.count(), second.save_partitions(rdd)))

    run_stream(topic, save_and_fail, lambda: len(output.values()) >= 50, checkpoint=str(tmp_path / "checkpoint"))
    kafka_produce(topic, ["last"])
    run_stream(topic, save, lambda: len(output.values()) >= 51, checkpoint=str(tmp_path / "checkpoint"))

    assert Counter(output.values()) == Counter([*map(str, range(50)), "last"])
    assert next(written for count, written in answers if count == 50) == 0


@pytest.mark.parametrize("form", ["save", "save_partitions"])
def test_batches_after_a_failed_one_wait_for_it(output, run_stream, kafka_topic, kafka_produce, tmp_path, form):
    """Also after the very first: where the output begins is noted before anything can fail."""
    topic, checkpoint = kafka_topic(), str(tmp_path / "checkpoint")
    kafka_produce(topic, ["a"])
    sink, refused = output.sink(), []

    def fail(row):
        raise RuntimeError("not this one")

    def save(rdd):
        is_first = rdd.offsetRanges()[0].fromOffset == 0
        try:
            getattr(sink, form)(rdd.map(fail) if is_first else rdd)
        except Exception as error:
            if is_first:
                kafka_produce(topic, ["b"])
            else:
                refused.append(str(error))
            raise

    run_stream(topic, save, lambda: refused, checkpoint=checkpoint)
    assert output.values() == []
    assert "stands at offset 0" in refused[0]
    assert "begins at 1: the batch before it was not saved" in refused[0]
    again = output.sink()
    run_stream(topic, getattr(again, form), lambda: len(output.values()) == 2, checkpoint=checkpoint)
    assert sorted(output.values()) == ["a", "b"]


def test_a_shuffle_is_refused_or_written_whole(output, run_stream, kafka_topic, kafka_produce):
    """Its partitions are no ranges; the whole batch in one transaction of the driver is as exact."""
    topic, refused, sink = kafka_topic(partitions=3), [], output.sink()
    kafka_produce(topic, ["x"] * 20 + ["y"] * 10, keys=[str(n) for n in range(30)])

    def save(rdd):
        counts = rdd.map(lambda row: (row[1], 1)).reduceByKey(lambda a, b: a + b).map(lambda row: (row[0], f"{row[1]}"))
        try:
            sink.save_partitions(counts)
        except ConfigError as error:
            refused.append(str(error))
        sink.save(counts, source=rdd)

    run_stream(topic, save, output.values)
    totals = Counter()
    for message in output.records():
        totals[message.key().decode()] += int(message.value())
    assert totals == {"x": 20, "y": 10}
    assert "not its batch's offset ranges any more" in refused[0]


def test_the_streams_own_group_is_refused(output, run_stream, kafka_topic):
    """The stream commits to its group after the output: late, it would move the sink back."""
    sink = output.sink()
    failures = run_stream(kafka_topic(), sink.save_partitions, lambda: False, group=f"copy-of-{output.topic}")
    assert "give the sink another name" in str(failures[0])


def test_foreach_batch_writes_each_batch_once(sc, output, tmp_path):
    """A query whose batch fails after it was written writes it no second time."""
    session = SparkSession(sc)
    failing, answers = [True], []

    def query():
        frame = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        frame = frame.selectExpr("CAST(value AS STRING) AS key", "CAST(value AS STRING) AS value")
        sink = output.sink("query")

        def save(batch, batch_id):
            answers.append((batch_id, sink.save_batch(batch, batch_id)))
            if batch_id == 1 and failing.pop():
                failing.append(False)
                raise RuntimeError("after the write")

        writer = frame.writeStream.foreachBatch(save).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.start()

    failing.insert(0, False)
    first = query()
    with pytest.raises(Exception, match="after the write"):
        first.awaitTermination()
    second = query()
    try:
        wait_until(lambda: answers and answers[-1][0] >= 3, "four batches", timeout=60)
    finally:
        second.stop()
    batches = max(id_ for id_, is_written in answers if is_written) + 1

    assert (1, True) in answers
    assert (1, False) in answers
    assert sorted(map(int, output.values())) == list(range(10 * batches))


SECOND_QUERY = """
import sys
from pyspark.sql import SparkSession
from kafka_direct.sinks import KafkaSink
servers, topic, name, checkpoint = sys.argv[1:]
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
sink = KafkaSink({"bootstrap.servers": servers}, topic, name=name)
writer = rows.selectExpr("concat('second ', value) AS value").writeStream.foreachBatch(sink.save_batch)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
"""


def test_a_second_query_stops_the_first(sc, output, tmp_path):
    """One of another process, with a checkpoint of its own: the older one ends, and nothing is there twice."""
    sink, servers = output.sink(), output.servers["bootstrap.servers"]
    rows = SparkSession(sc).readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    writer = rows.selectExpr("concat('first ', value) AS value").writeStream.foreachBatch(sink.save_batch)
    first = writer.option("checkpointLocation", str(tmp_path / "first")).start()
    wait_until(lambda: len(output.values()) >= 10, "two batches of the first query", timeout=180)
    command = [sys.executable, "-c", SECOND_QUERY, servers, output.topic, sink._store.name, str(tmp_path / "second")]
    with subprocess.Popen(command, start_new_session=True) as second:
        try:
            # Between two batches it is told by whom; within one, only that its producer is not the newest.
            told = rf"belongs to another driver now, process {second.pid} of|Fenced: .* has a newer producer"
            with pytest.raises(StreamingQueryException, match=told):
                first.awaitTermination(180)
            ended = len(output.values())
            wait_until(lambda: len(output.values()) >= ended + 10, "two more batches of the second query", timeout=180)
        finally:
            kill_session(second.pid)
    values = output.values()

    for name in ("first", "second"):
        numbers = sorted(int(value.split()[1]) for value in values if value.startswith(name))
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= 10
