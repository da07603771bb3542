"""The stream's reader, called in the order in which Spark calls it: what no timing of a query shows for sure."""

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kafka_direct import TopicPartition, testing
from kafka_direct.broker import ConsumerGroup
from kafka_direct.engine import group as engine_group
from kafka_direct.errors import OffsetsLost
from kafka_direct.options import ClientParams
from kafka_direct.pyspark_names import ReadAllAvailable
from kafka_direct.sql import KafkaDirectSource

pytestmark = pytest.mark.pyspark("4.2")  # whose calls these are; for 4.0 and 4.1: tests/sql/test_untold_cycle.py


@pytest.fixture
def reader(kafka):
    """Give readers of a topic, each that of another run: `reader(topic, startingOffsets="earliest")`."""

    def make(topic, **options):
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
        given |= {name.replace("__", "."): str(value) for name, value in options.items()}
        source = KafkaDirectSource(given)
        made = source.streamReader(source.schema())
        return Calls(made, made.getDefaultReadLimit())

    return make


class Calls:
    """A reader, and what Spark asks of it."""

    def __init__(self, reader, limit):
        self.reader, self.limit = reader, limit
        self.begin, self.prepare = reader.initialOffset, reader.prepareForTriggerAvailableNow

    def end(self, start, limit=None):
        return self.reader.latestOffset(start, limit or self.limit)

    def ranges(self, start, end):
        parts = [part.range for part in self.reader.partitions(start, end)]
        return [(part.partition, part.fromOffset, part.untilOffset) for part in parts]

    def first(self):
        """The first batch of a query, up to its end."""
        start = self.begin()
        end = self.end(start)
        assert self.ranges(self.begin(), end) == []
        return end


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def add_partitions(admin, topic, total):
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)
    testing.wait_until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == total, "partitions", timeout=30
    )


def delete_records(admin, topic, before):
    (future,) = admin.delete_records([ClientPartition(topic, 0, before)]).values()
    future.result(30)


def recreate(kafka, topic):
    testing.delete_topic(kafka.bootstrap_servers, topic)
    testing.create_topic(kafka.bootstrap_servers, topic)


def at(topic, *offsets):
    return {topic: {str(partition): offset for partition, offset in enumerate(offsets)}}


# -- where a query starts


def test_the_start_is_found_once(reader, kafka_topic, kafka_produce):
    """Spark asks for it twice in the first batch, and latest may have moved between."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 3)
    run = reader(topic)

    start = run.begin()
    kafka_produce(topic, ["b"] * 2)

    assert run.begin() == start == at(topic, 3)
    assert run.end(start) == start
    assert run.ranges(start, start) == []


def test_a_first_batch_that_nobody_reads(reader, kafka_topic, kafka_produce):
    """A sink that passes over its frame asks for no partitions; the second batch is a second one all the same."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 3)
    run = reader(topic, startingOffsets="earliest")
    start = run.begin()
    end = run.end(start)
    run.begin()

    assert run.end(end) == at(topic, 3)


def test_once_reads_at_once(reader, kafka_topic, kafka_produce):
    """Its one batch is not spent on the start, and has no limits."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 3)
    run = reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=1)

    assert run.end(run.begin(), ReadAllAvailable()) == at(topic, 3)


# -- the next batch


def test_a_new_partition_is_logged_before_it_is_read(reader, admin, kafka_topic, kafka_produce):
    """Its first offset is the end of one batch and the start of the next: what runs again begins there too."""
    topic = kafka_topic()
    run = reader(topic, startingOffsets="earliest")
    start = run.first()
    add_partitions(admin, topic, 2)
    kafka_produce(topic, ["a"] * 3, partition=1)

    end = run.end(start)
    assert end == at(topic, 0, 0)
    assert run.ranges(start, end) == []
    assert run.end(end) == at(topic, 0, 3)
    assert run.ranges(end, at(topic, 0, 3)) == [(1, 0, 3)]


def test_a_batch_runs_again_as_it_was_logged(reader, kafka_topic, kafka_produce):
    """In another process, whatever has come since and whatever the options now say."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, ["a"] * 9, partition=0)
    kafka_produce(topic, ["a"] * 9, partition=1)

    assert reader(topic, maxOffsetsPerTrigger=1).ranges(at(topic, 2, 5), at(topic, 6, 5)) == [(0, 2, 6)]


def test_a_batch_that_runs_again_after_its_records_aged_out(reader, admin, kafka_topic, kafka_produce, caplog):
    """Is a loss, with numbers; accepted, what is left is read."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 9)
    delete_records(admin, topic, before=5)

    with pytest.raises(OffsetsLost, match="aged out: wanted offset 2, available offsets 5 to 9"):
        reader(topic).ranges(at(topic, 2), at(topic, 7))
    assert reader(topic, failOnDataLoss="false").ranges(at(topic, 2), at(topic, 7)) == [(0, 5, 7)]
    assert f"goes on after a loss: {topic}-0 aged out: wanted offset 2" in caplog.text


def test_records_that_age_out_before_a_worker_has_them(reader, admin, kafka_topic, kafka_produce):
    """Are a loss there, too, and the option that accepts it is named."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 9)
    planned = reader(topic).reader.partitions(at(topic, 2), at(topic, 7))
    delete_records(admin, topic, before=5)

    def offsets(**options):
        batches = [batch for part in planned for batch in reader(topic, **options).reader.read(part)]
        return [offset for batch in batches for offset in batch["offset"].to_pylist()]

    with pytest.raises(OffsetsLost, match=r"aged out: wanted offset 2.* set the option failOnDataLoss to false"):
        offsets()
    assert offsets(failOnDataLoss="false") == [5, 6]


def test_an_end_that_is_behind_for_a_moment_is_no_loss(reader, kafka_topic, kafka_produce, monkeypatch):
    """A broker that has just become the leader may not know of the last records yet."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 3)
    run = reader(topic, startingOffsets="earliest")
    run.first()
    brokers, subscription = run.reader.cycle.engine.brokers, run.reader.cycle.engine.subscription
    answers = [brokers.find_available(subscription)]
    kafka_produce(topic, ["a"] * 3)
    ask = brokers.find_available
    monkeypatch.setattr(brokers, "find_available", lambda _: answers.pop() if answers else ask(subscription))

    assert run.end(at(topic, 5)) == at(topic, 6)
    assert answers == []


# -- a run that ends


def test_a_run_that_ends_does_not_run_after_new_records(reader, admin, kafka_topic, kafka_produce):
    """What comes after its start, in old partitions and new, is the next run's."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 3)
    run = reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2)
    run.prepare()
    add_partitions(admin, topic, 2)
    kafka_produce(topic, ["b"] * 3, partition=0)
    kafka_produce(topic, ["b"] * 3, partition=1)
    start = run.first()

    assert start == at(topic, 0, 0)
    assert run.end(start) == at(topic, 2, 0)
    assert run.end(at(topic, 2, 0)) == run.end(at(topic, 3, 0)) == at(topic, 3, 0)  # one is enough: no more will come


@pytest.mark.parametrize("accept", [False, True])
def test_a_topic_recreated_before_the_first_batch(reader, kafka, kafka_topic, kafka_produce, accept):
    """Is told by the id that it had when the run began, though its offsets would fit."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 5)
    run = reader(topic, failOnDataLoss=str(not accept))
    run.prepare()
    recreate(kafka, topic)
    kafka_produce(topic, ["b"] * 5)

    if accept:
        assert run.end(at(topic, 3)) == run.end(at(topic, 0)) == at(topic, 0)
    else:
        with pytest.raises(OffsetsLost, match="topic recreated: wanted offset 3, available offsets 0 to 5"):
            run.end(at(topic, 3))


# -- the group


@pytest.fixture
def group(kafka):
    """The group that is called as the topic, which is nobody's while a test looks."""
    made = []

    def of(topic):
        made.append(
            ConsumerGroup(ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic}))
        )
        return made[-1]

    yield of
    for each in made:
        each.close()


@pytest.fixture
def committed(group):
    return lambda topic: group(topic).committed([TopicPartition(topic, 0)]).get(TopicPartition(topic, 0))


def test_a_query_starts_where_its_group_stands(reader, group, kafka_topic, kafka_produce):
    """A partition that the group has nothing of is new, and read from its first; a new group starts at latest."""
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, ["a"] * 5, partition=0)
    kafka_produce(topic, ["a"] * 5, partition=1)
    options = {"startingOffsets": "group", "kafka__group__id": topic}

    assert reader(topic, **options).begin() == at(topic, 5, 5)
    group(topic).commit({TopicPartition(topic, 0): 3})
    assert reader(topic, **options).begin() == at(topic, 3, 0)


def test_the_group_stands_where_work_is_finished(reader, kafka_topic, kafka_produce, committed):
    """At the start of the batch that is planned, never at its end; at no place before the first is done."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 5)
    run = reader(topic, startingOffsets="earliest", maxOffsetsPerTrigger=2, kafka__group__id=topic)

    start = run.first()
    assert committed(topic) is None
    for offset in (0, 2, 4, 5, 5):
        assert start == at(topic, offset)
        start = run.end(start)
        assert committed(topic) == offset


def test_a_group_that_stands_still_is_told_again(reader, admin, kafka_topic, committed, monkeypatch):
    """Kafka forgets a group whose last commit is old, so an idle query repeats it."""
    topic = kafka_topic()
    run = reader(topic, startingOffsets="earliest", kafka__group__id=topic)
    start = run.first()
    run.end(start)
    admin.delete_consumer_groups([topic])[topic].result(30)

    run.end(start)
    assert committed(topic) is None
    monkeypatch.setattr(engine_group, "REFRESH_SECONDS", -1.0)
    run.end(start)
    assert committed(topic) == 0


def test_a_group_that_refuses_does_not_stop_the_query(reader, kafka, kafka_topic, kafka_produce, caplog):
    """The checkpoint is the truth: that the group has members of another kind is said, and the query goes on."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"] * 5)
    member = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic})
    try:
        member.subscribe([topic])
        testing.wait_until(lambda: member.poll(0.1) or member.assignment(), "the member", timeout=60)
        run = reader(topic, startingOffsets="earliest", kafka__group__id=topic)

        assert run.end(run.first()) == at(topic, 5)
        assert "finished work was not committed to the consumer group" in caplog.text
    finally:
        member.close()
