"""The reader of a range where the client stands still, beside a real broker that answers."""

import gc
import time
import weakref

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct import OffsetRange, testing
from kafka_direct.broker import Cluster, idle
from kafka_direct.broker.fetch import reader
from kafka_direct.broker.fetch.chunk import ChunkError
from kafka_direct.broker.fetch.fetch_size import LARGE_FETCHES
from kafka_direct.broker.fetch.reader import ReadSettings, _BorrowedConsumer, _RangeRead, read_chunks
from kafka_direct.broker.fetch.worker_consumer import MessageConsumer, build_fastest
from kafka_direct.errors import BrokerUnavailable, ConfigError
from kafka_direct.offsets import LossPolicy
from kafka_direct.options import ClientParams, Subscription

both_kinds = pytest.mark.parametrize("build", [MessageConsumer, build_fastest])


def reading_of(kafka, topic, until, build, seconds):
    # So little is fetched ahead that a consumer which is stopped has the rest of the range still to get.
    little = {"queued.min.messages": 1, "fetch.max.bytes": 50_000, "message.max.bytes": 50_000}
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, **little})
    accepted = LossPolicy(fail_on_data_loss=False, setting="failOnDataLoss", reader="a test")
    settings = ReadSettings(poll_seconds=seconds, losses=accepted)
    return _RangeRead(_BorrowedConsumer(build, params, LARGE_FETCHES), OffsetRange(topic, 0, 0, until), settings)


def offsets_of(chunk):
    return [chunk.offset_of(place) for place in range(len(chunk))]


@both_kinds
def test_a_consumer_that_stands_still_is_woken(kafka, kafka_topic, kafka_produce, build):
    """A range is read to its end though its consumer stopped fetching in the middle; every record comes once."""
    topic = kafka_topic()
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000, build, seconds=60)
    chunks = reading.chunks()
    offsets = offsets_of(next(chunks))
    reading.borrowed.consumer.client.pause([ClientPartition(topic, 0)])

    for chunk in chunks:
        offsets += offsets_of(chunk)

    assert offsets == list(range(5000))
    reading.borrowed.consumer.close()


@both_kinds
def test_a_topic_that_is_deleted_meanwhile_is_told_soon(kafka, kafka_produce, build):
    """Long before the consumer's patience ends; what is left of the range is passed over on demand."""
    topic = testing.create_topic(kafka.bootstrap_servers)
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000, build, seconds=600)
    chunks = reading.chunks()
    next(chunks)
    testing.delete_topic(kafka.bootstrap_servers, topic)
    begun = time.monotonic()

    for _ in chunks:
        pass

    assert time.monotonic() - begun < 120
    assert reading.position == 5000
    reading.borrowed.consumer.close()


@both_kinds
def test_an_error_behind_records_is_asked_after_from_there(kafka, kafka_topic, kafka_produce, build, monkeypatch):
    """A broker that takes a partition for gone in between: what came before its answer comes once."""
    topic = kafka_topic()
    kafka_produce(topic, [f"{number:01000}" for number in range(5000)], config={"linger.ms": 20})
    reading = reading_of(kafka, topic, 5000, build, seconds=60)
    poll, answers = reading.borrowed.consumer.poll, []

    def with_an_error(*asked):
        chunk = poll(*asked)
        if len(chunk) > 1 and not answers:
            answers.append(ChunkError(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE), -1))
            monkeypatch.setattr(chunk, "take_errors", lambda: answers)
        return chunk

    monkeypatch.setattr(reading.borrowed.consumer, "poll", with_an_error)
    offsets = [offset for chunk in reading.chunks() for offset in offsets_of(chunk)]

    assert len(answers) == 1
    assert offsets == list(range(5000))
    reading.borrowed.consumer.close()


def test_a_consumer_that_cannot_be_renewed_is_no_worse(kafka, kafka_topic, kafka_produce, tmp_path):
    """A secret that is not there for a moment fails the task, and the worker's next one reads with what it has."""
    topic, secret = kafka_topic(), tmp_path / "secret"
    kafka_produce(topic, ["x"] * 10)
    secret.write_text("key")
    given = {"bootstrap.servers": kafka.bootstrap_servers, "ssl.key.password": f"file:{secret}"}
    params = ClientParams.parse(given)
    range_ = OffsetRange(topic, 0, 0, 10)
    with _BorrowedConsumer(build_fastest, params, LARGE_FETCHES) as borrowed:
        secret.rename(tmp_path / "away")
        with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
            borrowed.replace()
        secret.with_name("away").rename(secret)

    assert sum(map(len, read_chunks(build_fastest, params, range_, ReadSettings(poll_seconds=60)))) == 10


def test_few_idle_consumers_are_kept(kafka, kafka_topic, kafka_produce):
    """Those that were used last; the rest is closed, for each has threads and connections."""
    topic = kafka_topic()
    kafka_produce(topic, ["x"] * 10)
    all_params = [
        ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "client.id": f"reader-{number}"})
        for number in range(idle.MAX_IDLE + 4)
    ]
    before = {consumer for _, consumer in reader.idle_consumers.kept()}

    for params in all_params:
        assert sum(map(len, read_chunks(build_fastest, params, OffsetRange(topic, 0, 0, 10)))) == 10

    assert [params for (params, *_), _ in reader.idle_consumers.kept()] == all_params[4:]
    for consumer in before:
        with pytest.raises(RuntimeError, match="closed"):
            consumer.client.poll(0)


def test_a_callback_that_raises_holds_up_no_close(kafka, kafka_topic, kafka_produce):
    """It fails the reading that it is called in, and leaves nothing behind that a consumer waits for to be gone."""
    topic, is_armed = kafka_topic(partitions=2), []
    for partition in range(2):
        kafka_produce(topic, ["x"] * 10_000, partition=partition)

    def stats(_):
        if is_armed:
            raise RuntimeError("of the user's")

    keys = {"bootstrap.servers": kafka.bootstrap_servers, "statistics.interval.ms": 5, "stats_cb": stats}
    params = ClientParams.parse(keys | {"client.id": topic})
    readings = [read_chunks(MessageConsumer, params, OffsetRange(topic, n % 2, 0, 10_000)) for n in range(3)]
    for reading in readings:
        next(reading)
    is_armed.append(True)

    with pytest.raises(RuntimeError, match="of the user's"):
        list(readings[0])
    for reading in readings[1:]:
        reading.close()  # closes a consumer: one of a kind is kept


def test_a_connection_that_asked_in_vain_is_gone_with_its_owner(kafka):
    """What a question has failed with holds nothing that holds the connection."""
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers})
    gc.disable()
    try:
        cluster = Cluster(params)
        assert cluster.find_available(Subscription.parse(["there-is-none"])).latest == {}
        client = weakref.ref(cluster.connection._admin)
        del cluster
        assert client() is None
    finally:
        gc.enable()


def test_what_a_connection_complains_of_is_told(kafka, kafka_topic, kafka_produce):
    """Settings that fit the driver's side only: a worker that hears nothing says what its client said."""
    topic = kafka_topic()
    kafka_produce(topic, ["x"] * 10)
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "ssl"})

    with pytest.raises(BrokerUnavailable, match=r"at offset 0 \(.*speaks no TLS.*\); check the brokers"):
        list(read_chunks(build_fastest, params, OffsetRange(topic, 0, 0, 10), ReadSettings(poll_seconds=1)))
