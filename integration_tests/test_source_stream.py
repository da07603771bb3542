"""The data source as a stream: where it starts, what each micro-batch reads, and what a restart makes of it."""

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQueryListener

from kafka_direct import TopicPartition, testing
from kafka_direct.broker import ConsumerGroup
from kafka_direct.options import ClientParams
from kafka_direct.pyspark_names import tells_triggers

pytestmark = pytest.mark.pyspark("4.0")


class Stream:
    """Queries over a topic on one checkpoint; `batches` has what each batch has read, once for every run of it.

    `meanwhile` happens once, in the first batch of a run that has read something.
    """

    def __init__(self, session, kafka, folder):
        self.session = session
        self.servers = kafka.bootstrap_servers
        self.checkpoint = folder / "checkpoint"
        self.batches = {}
        self.queries = []
        self.meanwhile = None

    def frame(self, topic, **options):
        reader = self.session.readStream.format("kafka_direct").schema("value STRING, partition INT")
        reader = reader.option("kafka.bootstrap.servers", self.servers).option("subscribe", topic)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        return reader.load()

    def start(self, topic, trigger=None, *, meanwhile=None, **options):
        self.meanwhile = meanwhile
        # Before PySpark 4.2 a limit needs to know which trigger the query has.
        frame = self.frame(topic, **options, trigger="processingTime" if trigger is None else next(iter(trigger)))
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint))
        writer = writer.foreachBatch(self.collect)
        query = (writer if trigger is None else writer.trigger(**trigger)).start()
        self.queries.append(query)
        return query

    def __call__(self, topic, **options):
        """Read what is there now, and return what this run has read, in order of batches.

        Before PySpark 4.2 a run is one batch. After a batch that runs again, or a loss, another run reads the rest.
        """
        self.batches = {}
        while True:
            before = sum(map(len, self.batches.values()))
            query = self.start(topic, {"availableNow": True}, **options)
            assert query.awaitTermination(240)
            if tells_triggers() or sum(map(len, self.batches.values())) == before:
                return self.values()
            options.pop("meanwhile", None)

    def collect(self, frame, batch_id):
        values = sorted(row.value for row in frame.collect())
        self.batches.setdefault(batch_id, []).append(values)  # complete, as tests look from another thread
        if values and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()

    def values(self):
        batches = dict(self.batches)
        return [value for batch_id in sorted(batches) for value in batches[batch_id][-1]]

    def newest(self):
        return max(int(path.name) for path in (self.checkpoint / "offsets").iterdir() if path.name.isdigit())

    def forget(self, folder, batch_id):
        """Take a file out of the checkpoint: without its commit, a batch has not finished."""
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (self.checkpoint / folder / name).unlink(missing_ok=True)

    def rewrite(self, batch_id, change):
        """Change the text of a batch's offsets."""
        path = self.checkpoint / "offsets" / str(batch_id)
        text = path.read_text()
        self.forget("offsets", batch_id)
        path.write_text(change(text))


@pytest.fixture
def stream(session, kafka, tmp_path):
    """Run a query to its end and get what it has read, `stream(topic, option=value)`; `start` one that goes on."""
    made = Stream(session, kafka, tmp_path)
    yield made
    for query in made.queries:
        query.stop()


def error_of(query):
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(120)
    return str(caught.value)


def committed(kafka, group, *partitions):
    reader = ConsumerGroup(ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}))
    try:
        return reader.committed(partitions)
    finally:
        reader.close()


def delete_records(kafka, topic, before):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    (future,) = admin.delete_records([ClientPartition(topic, 0, before)]).values()
    future.result(30)


def numbers(start, until):
    return [f"{n:03}" for n in range(start, until)]


# -- a run that ends, and the next


@pytest.mark.pyspark("4.2")
def test_available_now_reads_all_in_limited_batches(stream, kafka, kafka_topic, kafka_produce):
    """Each record once over two runs; batches within maxOffsetsPerTrigger; the group told of the last batch too."""
    topic = kafka_topic(partitions=2)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4, "kafka__group__id": topic}
    kafka_produce(topic, numbers(0, 7), partition=0)
    kafka_produce(topic, numbers(7, 10), partition=1)

    assert sorted(stream(topic, **options)) == numbers(0, 10)
    assert [len(values[-1]) for values in stream.batches.values()] == [0, 3, 3, 4]
    assert committed(kafka, topic, TopicPartition(topic, 0), TopicPartition(topic, 1)) == {
        TopicPartition(topic, 0): 7,
        TopicPartition(topic, 1): 3,
    }

    kafka_produce(topic, numbers(10, 13), partition=1)
    assert stream(topic, **options) == numbers(10, 13)
    assert stream(topic, **options) == []
    assert stream.batches == {}


def test_javas_largest_long_and_a_topic_named_twice(stream, kafka_topic, kafka_produce):
    """As Spark's source takes them: no limit, the end, and one topic."""
    topic, most = kafka_topic(), 2**63 - 1
    kafka_produce(topic, numbers(0, 10))
    at_the_end = {"startingTimestamp": most, "startingOffsetsByTimestampStrategy": "latest"}
    limits = {"maxOffsetsPerTrigger": most, "minOffsetsPerTrigger": most, "maxRecordsPerPartition": most}

    assert stream(f"{topic}, {topic}", **at_the_end, **limits) == []
    kafka_produce(topic, numbers(10, 13))
    assert stream(f"{topic},{topic}", **at_the_end, **limits) == numbers(10, 13)


def test_once_reads_all_in_one_batch(stream, kafka_topic, kafka_produce):
    """Trigger.Once has one batch, so that is not spent on the start, and limits do not apply to it, as in Spark."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 10))

    for expected in (numbers(0, 10), numbers(10, 15)):
        stream.batches = {}
        query = stream.start(topic, {"once": True}, startingOffsets="earliest", maxOffsetsPerTrigger=2)
        assert query.awaitTermination(120)
        assert stream.values() == expected
        kafka_produce(topic, numbers(10, 15))


def test_latest_is_where_the_query_first_started(stream, kafka_topic, kafka_produce):
    """Records written after the first start are read by the next run, however far latest has moved."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 5))
    assert stream(topic) == []

    kafka_produce(topic, numbers(5, 8))
    assert stream(topic) == numbers(5, 8)


@pytest.mark.parametrize("start", ["latest", "latest-2", "earliest"])
def test_crash_around_the_first_batch(stream, kafka, kafka_topic, kafka_produce, start):
    """A first batch that ran and was not committed is followed by each record from the first start on, once."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 5))
    stream(topic, startingOffsets=start)
    planned = stream.batches[0]
    for batch_id in range(1, stream.newest() + 1):  # what came after never happened
        stream.forget("commits", batch_id)
        stream.forget("offsets", batch_id)
    stream.forget("commits", 0)
    kafka_produce(topic, numbers(5, 8))

    first = {"latest": 5, "latest-2": 3, "earliest": 0}[start]
    assert stream(topic, startingOffsets=start) == numbers(first, 8)
    assert stream.batches[0] == planned


def test_an_unfinished_batch_runs_again_the_same(stream, kafka_topic, kafka_produce):
    """What was logged and not committed is read again, those ranges exactly, under the same batch id."""
    topic = kafka_topic(partitions=3)
    for partition in range(3):
        kafka_produce(topic, numbers(10 * partition, 10 * partition + 5), partition=partition)
    stream(topic, startingOffsets="earliest", maxOffsetsPerTrigger=6)
    before = stream.batches
    newest = stream.newest()
    stream.forget("commits", newest)
    kafka_produce(topic, numbers(50, 60), partition=1)

    assert stream(topic, startingOffsets="latest", maxOffsetsPerTrigger=100)[-10:] == numbers(50, 60)
    assert stream.batches[newest] == before[newest]
    assert sorted(stream.batches) == [newest, newest + 1]


def test_a_checkpoint_of_sparks_source_goes_on(stream, kafka_topic, kafka_produce):
    """The text that the JVM's source writes is read: what it had finished is not read again, nothing is left out."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, numbers(0, 5), partition=0)
    kafka_produce(topic, numbers(5, 8), partition=1)
    stream(topic)
    stream.rewrite(stream.newest(), lambda text: "\n".join([*text.splitlines()[:-1], f'{{"{topic}":{{"1":1,"0":4}}}}']))

    assert sorted(stream(topic)) == ["004", "006", "007"]


# -- a query that goes on


class Idle(StreamingQueryListener):
    """Counts reports of a query that it has nothing to do."""

    def __init__(self):
        self.count = 0

    def onQueryIdle(self, _):
        self.count += 1

    def onQueryStarted(self, _):
        pass

    onQueryProgress = onQueryTerminated = onQueryStarted


def test_an_idle_query_writes_no_batches(stream, session, kafka, kafka_topic, kafka_produce):
    """While nothing comes there is no batch; the group is told of the last one all the same."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 5))
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200")
    idle = Idle()
    session.streams.addListener(idle)
    try:
        stream.start(topic, startingOffsets="earliest", kafka__group__id=topic)
        testing.wait_until(lambda: stream.values() == numbers(0, 5), "the records", timeout=60)
        idle.count = 0
        testing.wait_until(lambda: idle.count >= 5, "an idle second", timeout=60)
    finally:
        session.streams.removeListener(idle)
        session.conf.unset("spark.sql.streaming.noDataProgressEventInterval")

    assert stream.newest() <= 1
    assert committed(kafka, topic, TopicPartition(topic, 0)) == {TopicPartition(topic, 0): 5}


def test_new_partitions_are_read_from_their_first_offset(stream, kafka, kafka_topic, kafka_produce):
    """Partitions added to a running query, or while it is down, lose nothing that is written before they are seen."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"])
    query = stream.start(topic, startingOffsets="earliest")
    testing.wait_until(lambda: stream.values() == ["a"], "the first record", timeout=60)

    add_partitions(kafka, topic, 2)
    kafka_produce(topic, ["b"], partition=1)
    testing.wait_until(lambda: stream.values() == ["a", "b"], "the second record", timeout=60)
    query.stop()

    add_partitions(kafka, topic, 3)
    kafka_produce(topic, ["c"], partition=2)
    assert stream(topic) in (["c"], ["b", "c"])  # stopped before its last batch was committed, a query runs that again


def add_partitions(kafka, topic, total):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
    testing.wait_until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == total, "partitions", timeout=30
    )


@pytest.mark.pyspark("4.2")  # before it, a run is one batch
def test_partitions_added_while_a_run_ends(stream, kafka, kafka_topic, kafka_produce):
    """It reads what was there when it began, and ends; the next one reads the new partition from its first record."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 6))

    def add():
        add_partitions(kafka, topic, 2)
        kafka_produce(topic, numbers(6, 10), partition=1)
        kafka_produce(topic, numbers(10, 14), partition=0)

    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 2, "kafka__group__id": topic}
    assert stream(topic, meanwhile=add, **options) == numbers(0, 6)
    assert sorted(stream(topic, **options)) == numbers(6, 14)
    assert committed(kafka, topic, TopicPartition(topic, 0), TopicPartition(topic, 1)) == {
        TopicPartition(topic, 0): 10,
        TopicPartition(topic, 1): 4,
    }


@pytest.mark.pyspark("4.2")  # before it, a run is one batch
@pytest.mark.parametrize("accept", [False, True])
def test_a_topic_recreated_while_a_run_ends(stream, kafka, kafka_topic, kafka_produce, accept):
    """The run stops with the cause; accepted, it ends, and the next one reads all of the new topic, once."""
    topic = kafka_topic(partitions=2)
    for partition in range(2):
        kafka_produce(topic, numbers(10 * partition, 10 * partition + 6), partition=partition)

    def recreate():
        testing.delete_topic(kafka.bootstrap_servers, topic)
        testing.create_topic(kafka.bootstrap_servers, topic)  # with one partition
        kafka_produce(topic, numbers(50, 58))

    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 4, "failOnDataLoss": str(not accept)}
    if not accept:
        query = stream.start(topic, {"availableNow": True}, meanwhile=recreate, **options)
        error = error_of(query)
        assert f"{topic}-0 topic recreated: wanted offset 2, available offsets 0 to 8" in error
        assert f"{topic}-1 partition deleted: wanted offset 2, available nothing" in error
        return
    assert stream(topic, meanwhile=recreate, **options) == ["000", "001", "010", "011"]
    assert stream(topic, **options) == numbers(50, 58)
    assert stream(topic, **options) == []


def test_min_offsets_wait_for_more(stream, kafka_topic, kafka_produce):
    """A batch waits until there is enough for it; records that came one by one are read together."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 2))
    stream.start(topic, startingOffsets="earliest", minOffsetsPerTrigger=4)
    testing.wait_until(lambda: stream.values() == numbers(0, 2), "the first batch, which does not wait", timeout=60)

    for n in range(2, 6):
        kafka_produce(topic, numbers(n, n + 1))
    testing.wait_until(lambda: stream.values() == numbers(0, 6), "the second batch", timeout=60)
    assert [numbers(2, 6)] in stream.batches.values()


def test_one_frame_in_many_queries(stream, session, kafka_topic, kafka_produce, tmp_path):
    """A frame joined with itself, and a second query of it, each read everything."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 3))
    frame = stream.frame(topic, startingOffsets="earliest")
    pairs = frame.alias("a").join(frame.alias("b"), "value")
    for name, made in {"pairs": pairs, "rows": frame}.items():
        writer = made.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / name))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    assert sorted(row.value for row in session.table("pairs").collect()) == numbers(0, 3)
    assert sorted(row.value for row in session.table("rows").collect()) == numbers(0, 3)


# -- loss


def test_aged_out(stream, kafka, kafka_topic, kafka_produce):
    """Records that retention took fail the query with numbers; accepted, what is there is read."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 5))
    stream(topic, startingOffsets="earliest")
    kafka_produce(topic, numbers(5, 20))
    delete_records(kafka, topic, before=12)

    error = error_of(stream.start(topic))
    assert f"{topic}-0 aged out: wanted offset 5, available offsets 12 to 20" in error
    assert "set the option failOnDataLoss to false" in error

    assert stream(topic, failOnDataLoss="false") == numbers(12, 20)
    assert stream(topic) == []


def test_truncated(stream, kafka_topic, kafka_produce):
    """A position beyond the end is a loss; accepted, reading resumes at the end and nothing is read twice."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 5))
    stream(topic, startingOffsets="earliest")
    stream.rewrite(stream.newest(), lambda text: text.replace('"0": 5', '"0": 500'))

    assert f"{topic}-0 truncated: wanted offset 500, available offsets 0 to 5" in error_of(stream.start(topic))
    assert stream(topic, failOnDataLoss="false") == []
    kafka_produce(topic, ["after"])
    assert stream(topic) == ["after"]


@pytest.mark.parametrize("accept", [False, True])
def test_recreated(stream, kafka, kafka_topic, kafka_produce, accept):
    """A topic recreated under a query is told by its id, though its offsets would fit; accepted, all of it is read."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 3))

    def recreate():
        testing.delete_topic(kafka.bootstrap_servers, topic)
        testing.create_topic(kafka.bootstrap_servers, topic)
        kafka_produce(topic, numbers(10, 17))

    query = stream.start(topic, meanwhile=recreate, startingOffsets="earliest", failOnDataLoss=str(not accept))
    if accept:
        testing.wait_until(lambda: stream.values()[3:] == numbers(10, 17), "the new topic's records", timeout=60)
    else:
        error = error_of(query)
        assert f"{topic}-0 topic recreated: wanted offset 3, available offsets 0 to 7" in error
        assert stream.values() == numbers(0, 3)


def test_deleted(stream, kafka, kafka_topic, kafka_produce):
    """A topic deleted under a query stops it, and is not taken for an empty one."""
    topic = kafka_topic()
    kafka_produce(topic, numbers(0, 3))
    query = stream.start(topic, startingOffsets="earliest")
    testing.wait_until(lambda: stream.values() == numbers(0, 3), "the records", timeout=60)

    testing.delete_topic(kafka.bootstrap_servers, topic)

    assert f"{topic}-0 partition deleted: wanted offset 3, available nothing" in error_of(query)


# -- what is refused


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for batches"),
        ({"startingOffsets": '{"t":{"0":1}}'}, "option startingOffsets names t-0, which is not among the partitions"),
        ({"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 4}, "minOffsetsPerTrigger is 5, which is more than"),
        ({"startingOffsets": "group"}, "set the option kafka.group.id"),
    ],
)
def test_bad_options(stream, kafka_topic, options, text):
    """Each is refused when the query starts, with one sentence that says what to do."""
    assert text in error_of(stream.start(kafka_topic(), **options))


# -- brokers that go away


def test_goes_on_when_the_leader_is_killed(stream, session):
    """With the leader of its partition killed and back again, a query reads every record once and ends well."""
    with testing.LocalKafka(nodes=3) as kafka:
        servers = kafka.bootstrap_servers
        topic = testing.create_topic(servers, partitions=1, replication=3, config={"min.insync.replicas": "1"})
        options = {"kafka__bootstrap__servers": servers, "kafka__group__id": topic, "startingOffsets": "earliest"}
        query = stream.start(topic, **options)
        safely = {"enable.idempotence": True, "acks": "all"}
        for round_ in range(2):
            before, after = 1000 * round_ + 500, 1000 * round_ + 1000
            testing.produce(servers, topic, [f"{n:05}" for n in range(before - 500, before)], config=safely)
            testing.wait_until(lambda n=before: len(stream.values()) >= n, "the records", timeout=120)
            leader = kafka.leader(topic, 0)
            kafka.kill(leader)
            testing.produce(servers, topic, [f"{n:05}" for n in range(before, after)], config=safely)
            testing.wait_until(lambda n=after: len(stream.values()) >= n, "those after the kill", timeout=120)
            kafka.start_node(leader)

        assert query.exception() is None
        query.stop()
    assert stream.values() == [f"{n:05}" for n in range(2000)]
