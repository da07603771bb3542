"""A log that cannot be trusted, and streams that would share one: refused at start, in a sentence, to the caller."""

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import OffsetRange, TopicPartition, createDirectStream
from kafka_direct.errors import ConfigError, CorruptLog, Fenced
from kafka_direct.offsets import Batch, OffsetLog


@pytest.fixture
def context(spark, kafka, tmp_path):
    """Make contexts on the test's checkpoint directory, each with one stream named `orders`."""
    sc = spark()

    def make(topics, output=lambda rdd: None, **extra):
        ssc = StreamingContext(sc, 1)
        ssc.checkpoint(str(tmp_path))
        params = {"bootstrap.servers": kafka.bootstrap_servers, **extra}
        createDirectStream(ssc, topics, params, name="orders").foreachRDD(output)
        return ssc

    return make


@pytest.fixture
def log(tmp_path):
    return OffsetLog(str(tmp_path), "orders")


def plan(log, topic, batch_id=0):
    log.plan(Batch(id=batch_id, ranges=(OffsetRange(topic, 0, 0, 0),), times=(1000 + batch_id,)))
    log.commit(batch_id)


def test_torn_file_is_named(context, kafka_topic, log, tmp_path):
    """A plan that was cut short stops the start and is named with its path; it is not guessed around."""
    topic = kafka_topic()
    plan(log, topic)
    torn = tmp_path / "kafka_direct" / "orders" / "offsets" / "0"
    torn.write_text(torn.read_text()[:40])

    with pytest.raises(CorruptLog, match=f"^{torn} is torn or was not written by kafka_direct"):
        context([topic]).start()


def test_foreign_file_is_named(context, kafka_topic, log, tmp_path):
    """A file that is no batch id is somebody else's; the stream does not start over it."""
    topic = kafka_topic()
    plan(log, topic)
    foreign = tmp_path / "kafka_direct" / "orders" / "commits" / "notes.txt"
    foreign.write_text("mine")

    with pytest.raises(CorruptLog, match=f"^{foreign} is no file of this log"):
        context([topic]).start()


def test_missing_batch_is_named(context, kafka_topic, log, tmp_path):
    """A hole in the log is found before anything is read."""
    topic = kafka_topic()
    for batch_id in range(3):
        plan(log, topic, batch_id)
    hole = tmp_path / "kafka_direct" / "orders" / "offsets" / "1"
    hole.unlink()

    with pytest.raises(CorruptLog, match=f"^{hole} is missing although batch 2 follows it"):
        context([topic]).start()


def test_log_of_another_topic_set_is_refused(context, kafka_topic, log):
    """A stream that no longer reads a topic its log stands in would silently give up that position."""
    old, new = kafka_topic(), kafka_topic()
    plan(log, old)

    with pytest.raises(ConfigError, match=f"stands at {old}-0, which the stream does not read: it reads topics {new}"):
        context([new]).start()


def test_added_topic_starts_at_its_earliest(kafka_topic, log, kafka_produce, collected, spark, kafka):
    """A topic that is added to the code is read from its beginning, and the log goes on."""
    old, added = kafka_topic(), kafka_topic()
    plan(log, old)
    kafka_produce(added, ["before"])
    ssc = StreamingContext(spark(), 0.5)
    ssc.checkpoint(log.path.removesuffix("/kafka_direct/orders"))
    stream = createDirectStream(ssc, [old, added], {"bootstrap.servers": kafka.bootstrap_servers}, name="orders")
    stream.foreachRDD(lambda rdd: [collected.add(value) for _, value in rdd.collect()])
    ssc.start()

    assert collected.wait(lambda items: len(items) == 1) == ["before"]
    assert stream.currentOffsets()[TopicPartition(added, 0)] == 1


def test_two_drivers_on_one_log(context, kafka_topic, log, kafka_produce, collected):
    """A batch id that another driver took stops this one, with the reason; nothing is read twice."""
    topic, values = kafka_topic(), [str(n) for n in range(10)]
    ssc = context([topic], lambda rdd: collected.extend(value for _, value in rdd.collect()))
    kafka_produce(topic, values)
    ssc.start()
    collected.wait(lambda items: len(items) == 10)
    # The other driver: it takes every id that this one may come to, with records that this one has read.
    for batch_id in range(1000):
        try:
            log.plan(Batch(id=batch_id, ranges=(OffsetRange(topic, 0, 0, 5),), times=(7,)))
        except Fenced:  # an id that this driver took first
            continue

    with pytest.raises(Exception, match=r"Fenced: batch \d+ stands in .*planned by another driver; this one must stop"):
        ssc.awaitTerminationOrTimeout(60)
    assert collected.items == values


@pytest.mark.parametrize("key", ["sasl.password", "ssl.key.password"])
def test_literal_secret_is_kept_out_of_the_checkpoint(context, kafka_topic, tmp_path, key):
    """A checkpointed stream refuses a literal secret, shows the form to use, and shows the secret to nobody."""
    with pytest.raises(ConfigError, match=r'"env:NAME" or .*"file:/path"') as refused:
        context([kafka_topic()], **{key: "hunter2"})

    assert "hunter2" not in str(refused.value)
    assert not any("hunter2" in path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())


def test_literal_secret_is_refused_by_a_late_checkpoint(spark, kafka, kafka_topic, tmp_path):
    """A checkpoint directory that is named after the stream was made changes nothing of it."""
    ssc = StreamingContext(spark(), 1)
    params = {"bootstrap.servers": kafka.bootstrap_servers, "sasl.password": "hunter2"}
    createDirectStream(ssc, [kafka_topic()], params).foreachRDD(lambda rdd: None)
    ssc.checkpoint(str(tmp_path))
    with pytest.raises(ConfigError, match=r'"env:NAME" or .*"file:/path"'):
        ssc.start()


def test_secret_reference_leaves_no_trace(context, kafka_topic, tmp_path, monkeypatch):
    """A secret given as env:NAME reaches the clients, and stands in no file of the checkpoint."""
    monkeypatch.setenv("KAFKA_DIRECT_TEST_SECRET", "hunter2")
    topic = kafka_topic()
    ssc = context([topic], **{"sasl.password": "env:KAFKA_DIRECT_TEST_SECRET"})
    ssc.start()
    ssc.awaitTerminationOrTimeout(3)
    ssc.stop(False, True)

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("checkpoint-" in path.name for path in written)
    assert not any("hunter2" in path.read_text("latin-1") for path in written)
