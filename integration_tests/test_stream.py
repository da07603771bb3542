"""A DirectKafkaInputDStream is a DStream like any other: every operation of PySpark's, on the real broker."""

from __future__ import annotations

from collections import Counter
from operator import add, sub

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import KafkaMessage, OffsetRange, TopicPartition, createDirectStream
from kafka_direct.testing import LocalKafka, create_topic, produce, wait_until

INTERVAL = 0.5  # a binary fraction: a window is to be a whole number of intervals


@pytest.fixture(scope="module")
def sc():
    """One SparkContext for the file."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
    conf.set("spark.streaming.kafka.consumer.poll.ms", "20000")  # for what a test leaves behind in a deleted topic
    with SparkContext(conf=conf.setAppName("test_stream")) as context:
        yield context


@pytest.fixture
def ssc(sc, tmp_path, kafka_topic):
    """A context that has stopped when the test's topics are deleted."""
    context = StreamingContext(sc, INTERVAL)
    context.checkpoint(str(tmp_path / "checkpoint"))
    yield context
    context.stop(False, False)


@pytest.fixture
def direct(ssc, kafka):
    """Make a stream that begins with the first record; keyword arguments as for createDirectStream."""

    def create(*topics, servers=kafka.bootstrap_servers, **options):
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        return createDirectStream(ssc, list(topics), params, **options)

    return create


@pytest.fixture
def written(kafka_topic, kafka_produce):
    """Write each list of values to a partition of its own of a new topic; returns the topic."""

    def write(*partitions, **columns):
        topic = kafka_topic(partitions=len(partitions))
        for number, values in enumerate(partitions):
            kafka_produce(topic, values, partition=number, **columns)
        return topic

    return write


@pytest.fixture
def outputs(collected):
    """What streams gave: `outputs.record(label, stream)` keeps each of its batches."""

    class Outputs:
        def record(self, label, stream):
            stream.foreachRDD(lambda time, rdd: collected.add((label, time, rdd.collect())))

        def of(self, label):
            """The records of a label's batches by their times."""
            return {time: records for other, time, records in list(collected.items) if other == label}

        def wait(self, condition):
            collected.wait(lambda _: condition(self), timeout=120)

        def first(self, *labels):
            """The first batch with records of each label."""
            collected.wait(lambda items: {label for label, _, records in items if records} >= set(labels))
            return [next(records for records in self.of(label).values() if records) for label in labels]

    return Outputs()


# -- one batch


def test_transformations(ssc, direct, outputs, written):
    """Transformations of each kind see the batch's records, partition by partition."""
    stream = direct(written(["a b", "b"], ["c b"]))
    values = stream.map(lambda pair: pair[1])
    derived = {
        "values": values,
        "filtered": values.filter(lambda value: " " in value),
        "words": values.flatMap(str.split),
        "reduced": values.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add),
        "glom": values.glom(),
        "count": stream.count().filter(lambda count: count > 0),
        "byValue": values.flatMap(str.split).countByValue(),
        "repartitioned": values.repartition(3).glom().map(len),
        "mapped": stream.mapValues(str.upper),
        "partitions": stream.mapPartitions(lambda records: [sum(1 for _ in records)]),
    }
    for label, derived_stream in derived.items():
        outputs.record(label, derived_stream)

    ssc.start()
    seen = dict(zip(derived, outputs.first(*derived), strict=True))

    assert seen["values"] == ["a b", "b", "c b"]
    assert seen["filtered"] == ["a b", "c b"]
    assert seen["words"] == ["a", "b", "b", "c", "b"]
    assert dict(seen["reduced"]) == dict(seen["byValue"]) == {"a": 1, "b": 3, "c": 1}
    assert seen["glom"] == [["a b", "b"], ["c b"]]
    assert seen["count"] == [3]
    assert (len(seen["repartitioned"]), sum(seen["repartitioned"])) == (3, 3)
    assert seen["mapped"] == [(None, "A B"), (None, "B"), (None, "C B")]
    assert seen["partitions"] == [2, 1]


def test_transform_has_offset_ranges(ssc, direct, outputs, written):
    """transform(f(rdd)) and transform(f(time, rdd)) are given the KafkaRDD, and what they give can be used further."""
    topic = written([], ["a"])
    stream = direct(topic)
    outputs.record("one", stream.transform(lambda rdd: rdd.ctx.parallelize(rdd.offsetRanges() if rdd.count() else [])))
    outputs.record("two", stream.transform(lambda time, rdd: rdd.map(lambda pair: (pair[1], time))))
    outputs.record("further", stream.transform(lambda rdd: rdd.values()).map(str.upper))

    ssc.start()
    one, two, further = outputs.first("one", "two", "further")

    assert one == [OffsetRange(topic, 0, 0, 0), OffsetRange(topic, 1, 0, 1)]
    assert two[0][0] == "a"
    assert two[0][1] in outputs.of("two")
    assert further == ["A"]


def test_several_outputs_share_a_batch(ssc, direct, collected, written):
    """foreachRDD(f(rdd)) and f(time, rdd), several times on one stream, get the same RDD under the same batch id."""
    topic = written(["a", "b"])
    stream = direct(topic)

    def first(rdd):
        collected.add(("first", None, rdd.batchId(), rdd.offsetRanges(), id(rdd)))

    def second(time, rdd, label="second"):
        collected.add((label, time, rdd.batchId(), rdd.offsetRanges(), id(rdd)))

    stream.foreachRDD(first)
    stream.foreachRDD(second)
    stream.foreachRDD(lambda time, rdd: second(time, rdd, "third"))
    ssc.start()
    items = collected.wait(lambda items: len(items) >= 9)[:9]

    assert [label for label, *_ in items] == ["first", "second", "third"] * 3
    for batch in (items[0:3], items[3:6], items[6:9]):
        assert len({tuple(map(str, facts)) for _, _, *facts in batch}) == 1
    assert [item[2] for item in items[::3]] == [0, 1, 2]
    assert items[0][3] == [OffsetRange(topic, 0, 0, 2)]
    assert items[3][3] == [OffsetRange(topic, 0, 2, 2)]


def test_a_batch_costs_no_exception(ssc, direct, outputs, written, monkeypatch):
    """With a SparkSession PySpark takes 20 ms to look at one of Java's, with which its collections end."""
    from pyspark.errors.exceptions import captured
    from pyspark.sql import SparkSession

    SparkSession(ssc.sparkContext)
    looked_at, convert = [], captured.convert_exception
    monkeypatch.setattr(captured, "convert_exception", lambda error: looked_at.append(error) or convert(error))
    stream = direct(written(list("abc")))
    outputs.record("all", stream.map(lambda pair: pair[1]))

    ssc.start()
    outputs.wait(lambda outputs: len(outputs.of("all")) >= 4)

    assert outputs.first("all") == [list("abc")]
    assert looked_at == []


def test_foreach_rdd_refuses_other_functions(direct, kafka_topic):
    """A function of no or of three arguments is refused when it is given."""
    stream = direct(kafka_topic())

    for function in (list, lambda: None, OffsetRange):
        with pytest.raises(TypeError, match=r"must take \(rdd\) or \(time, rdd\)"):
            stream.foreachRDD(function)


def test_elements(ssc, direct, outputs, written):
    """Decoders and messageHandler make the elements, as they do for createRDD."""
    topic = written([b"\xff"], keys=["k"], headers=[[("h", None)]], timestamps=[7])
    outputs.record("bytes", direct(topic, keyDecoder=len, valueDecoder=None))
    outputs.record("messages", direct(topic, valueDecoder=None, messageHandler=lambda message: message))

    ssc.start()

    assert outputs.first("bytes", "messages") == [
        [(1, b"\xff")],
        [KafkaMessage(topic, 0, 0, 7, "k", b"\xff", [("h", None)])],
    ]


def test_output_to_files_and_screen(ssc, direct, outputs, written, tmp_path, capsys):
    """The outputs saveAsTextFiles and pprint work as on any stream."""
    stream = direct(written(["a", "b"]))
    stream.map(lambda pair: pair[1]).saveAsTextFiles(str(tmp_path / "out"))
    stream.pprint()
    outputs.record("all", stream)

    ssc.start()
    outputs.first("all")

    assert any(path.read_text() == "a\nb\n" for path in tmp_path.glob("out-*/part-00000"))
    assert "(None, 'a')\n(None, 'b')\n" in capsys.readouterr().out


def test_slice(ssc, direct, outputs, written):
    """Batches that are remembered can be taken again by their times."""
    stream = direct(written(["a", "b"]))
    ssc.remember(120)
    outputs.record("all", stream)

    ssc.start()
    outputs.first("all")
    time = next(time for time, records in outputs.of("all").items() if records)

    seconds = time.timestamp() + 0.0005  # of a datetime PySpark takes the whole seconds alone
    assert [rdd.collect() for rdd in stream.slice(seconds, seconds)] == [[(None, "a"), (None, "b")]]


def test_cached_stream_is_read_once(ssc, direct, outputs, written):
    """The records of a stream that is cached are fetched once, however many outputs it has."""
    topic = written(["a", "b", "c"])
    reads = ssc.sparkContext.accumulator(0)

    def counted(value):
        reads.add(1)
        return value.decode()

    stream = direct(topic, valueDecoder=counted).cache()
    outputs.record("mapped", stream.map(lambda pair: pair[1]))
    outputs.record("whole", stream)
    stream.foreachRDD(lambda rdd: rdd.values().collect())
    outputs.record("transformed", stream.transform(lambda rdd: rdd.values()))
    ssc.start()

    assert outputs.first("mapped", "whole", "transformed")[0] == ["a", "b", "c"]
    assert reads.value == 3


# -- over batches


def test_transform_under_a_sliding_window(ssc, direct, outputs, written, kafka_produce):
    """A window that slides by several batches finds the KafkaRDDs of batches that have long ended."""
    topic = written(["a"])
    stream = direct(topic)
    outputs.record("batch", stream)
    outputs.record("window", stream.transform(lambda rdd: rdd.values()).window(3 * INTERVAL, 3 * INTERVAL))

    ssc.start()
    outputs.first("batch")
    for value in "bcd":
        seen = len(outputs.of("window"))
        kafka_produce(topic, [value])
        outputs.wait(lambda outputs, seen=seen: len(outputs.of("window")) > seen)
    outputs.wait(lambda outputs: sum(map(len, outputs.of("window").values())) >= 4)

    assert [value for _, values in sorted(outputs.of("window").items()) for value in values] == list("abcd")


def test_windows_and_state(ssc, direct, outputs, kafka_topic, kafka_produce):
    """Windows, counts over them, their sums by inverse and state equal a recount of the batches."""
    topic = kafka_topic(partitions=2)
    stream = direct(topic)
    pairs = stream.map(lambda pair: (pair[0], int(pair[1])))
    initial = ssc.sparkContext.parallelize([("a", 1000), ("z", 5)])
    outputs.record("batch", pairs)
    outputs.record("window", stream.window(3 * INTERVAL, INTERVAL).map(lambda pair: (pair[0], int(pair[1]))))
    outputs.record("count", stream.countByWindow(3 * INTERVAL, INTERVAL))
    window = pairs.reduceByKeyAndWindow(add, sub, 3 * INTERVAL, INTERVAL, 1, lambda pair: pair[1] != 0)
    outputs.record("inverse", window)
    outputs.record("state", pairs.updateStateByKey(lambda new, old: sum(new) + (old or 0), 1, initial))

    ssc.start()
    for number in range(1, 6):
        kafka_produce(topic, [str(number), "1", "2"], keys=["a", "b", "c"])
        # As soon as they are planned: a slow machine is to have a longer queue, not more batches.
        wait_until(lambda number=number: sum(stream.currentOffsets().values()) == 3 * number, "the plan of a batch")
    outputs.wait(lambda seen: sum(map(len, seen.of("batch").values())) == 15)
    last = max(outputs.of("batch"))
    outputs.wait(lambda seen: sum(time > last for time in seen.of("state")) >= 3)

    times = sorted(outputs.of("state"))
    batches = [outputs.of("batch")[time] for time in times]
    for place, time in enumerate(times):
        inside = [pair for batch in batches[max(place - 2, 0) : place + 1] for pair in batch]
        ever = [("a", 1000), ("z", 5), *(pair for batch in batches[: place + 1] for pair in batch)]
        assert sorted(outputs.of("window")[time]) == sorted(inside)
        assert sum(outputs.of("count")[time]) == len(inside)
        assert dict(outputs.of("inverse")[time]) == total(inside)
        assert dict(outputs.of("state")[time]) == total(ever)
    assert total(pair for batch in batches for pair in batch) == {"a": 15, "b": 5, "c": 10}


def total(pairs):
    counter = Counter()
    for key, number in pairs:
        counter[key] += number
    return dict(counter)


# -- several streams


def test_join_and_union(ssc, direct, outputs, written):
    """Two direct streams join by key, and union in the stream's way and the context's."""
    names, ages = written(["Ada", "Bob"], keys=["1", "2"]), written(["36", "42"], keys=["1", "3"])
    left, right = direct(names), direct(ages, name="ages")
    outputs.record("joined", left.join(right))
    outputs.record("outer", left.leftOuterJoin(right))
    outputs.record("union", left.union(right))
    outputs.record("both", ssc.union(left, right))
    outputs.record("queue", ssc.queueStream([[("1", "x")]]).map(lambda pair: pair))

    ssc.start()
    joined, outer, union, both, queued = outputs.first("joined", "outer", "union", "both", "queue")

    everything = [("1", "36"), ("1", "Ada"), ("2", "Bob"), ("3", "42")]
    assert joined == [("1", ("Ada", "36"))]
    assert sorted(outer) == [("1", ("Ada", "36")), ("2", ("Bob", None))]
    assert sorted(union) == sorted(both) == everything
    assert queued == [("1", "x")]
    assert (left.name, right.name) == ("stream-0", "ages")
    assert left.currentOffsets() == {TopicPartition(names, 0): 2}


def test_streams_of_two_clusters(ssc, direct, outputs, written):
    """One context reads two Kafkas, also topics of one name."""
    topic = written(["here"], keys=["k"])
    with LocalKafka() as other:
        create_topic(other.bootstrap_servers, topic)
        produce(other.bootstrap_servers, topic, ["there"], keys=["k"])
        outputs.record("joined", direct(topic).join(direct(topic, servers=other.bootstrap_servers)))
        ssc.start()

        assert outputs.first("joined") == [[("k", ("here", "there"))]]
        ssc.stop(False, True)
