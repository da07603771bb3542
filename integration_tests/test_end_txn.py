"""What a cut connection and a late EndTxn do to plain confluent_kafka: why the sinks keep no producer after them.

Seen with Apache Kafka 4.3.0 and librdkafka 2.16.0. A test that fails here tells that a new release has mended it.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

sys.path.append(str(Path(__file__).parent))  # for those beside this file: pytest's importlib mode adds nothing

from late_end_txn import commit_with_late_copy, deliver

from kafka_direct.testing import ApiKey, LocalKafka, LocalProxy, create_topic, wait_until
from kafka_direct.testing.topic import client_settings

HALF = 10


# Without it every test here would hang as the last one does.
KEPT_BROKERS = {"metadata.recovery.strategy": "none"}


@pytest.fixture(scope="module")
def proxied():
    with LocalProxy() as proxy, LocalKafka(proxy=proxy) as kafka:
        yield proxy, kafka


@pytest.fixture
def job(proxied):
    job = Job(proxied[1], **KEPT_BROKERS)
    yield job
    job.group.close()


class Job:
    """A producer whose transactions have offsets first and then records, and what its readers see."""

    def __init__(self, kafka, **settings):
        self.kafka, self.settings = kafka, settings
        self.topic, self.source = create_topic(kafka.direct_servers), create_topic(kafka.direct_servers)
        # Read uncommitted: the answer does not wait for the end of an open transaction, and has nothing of it.
        settings = {"group.id": f"of-{self.topic}", "isolation.level": "read_uncommitted"}
        self.group = Consumer(client_settings(kafka.direct_servers) | settings)
        self.producer = self.new_producer()

    def new_producer(self):
        settings = {"transactional.id": f"writes-{self.topic}", "socket.timeout.ms": 2000, "retry.backoff.ms": 50}
        producer = Producer(client_settings(self.kafka.bootstrap_servers) | settings | self.settings)
        producer.init_transactions(30)
        return producer

    def begin(self, offset, seconds=30):
        self.producer.begin_transaction()
        moved = [TopicPartition(self.source, 0, offset)]
        self.producer.send_offsets_to_transaction(moved, self.group.consumer_group_metadata(), seconds)

    def commit(self):
        self.producer.commit_transaction(30)

    def write(self, text):
        for number in range(HALF):
            self.producer.produce(self.topic, f"{text} {number}")
        assert self.producer.flush(30) == 0

    def committed(self):
        """The offset in the group, and the records, that are committed."""
        (place,) = self.group.committed([TopicPartition(self.source, 0)], 30)
        reader = Consumer(
            client_settings(self.kafka.direct_servers)
            | {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
        )
        reader.assign([TopicPartition(self.topic, 0, 0)])
        values = []
        while not (message := reader.poll(30)).error():  # up to the end of the partition
            values.append(message.value().decode())
        reader.close()
        return place.offset, values

    def wait_for(self, offset, *written):
        """Return once this is committed; a commit is answered before its markers stand in the partitions."""
        expected = (offset, [value for text in written for value in texts(text)])
        wait_until(lambda: self.committed() == expected, f"offset {offset} and {written}", timeout=10)


def texts(text):
    return [f"{text} {number}" for number in range(HALF)]


def after_first(proxy, job):
    """Write and commit a first transaction, with a copy of its EndTxn that is still on its way."""
    job.begin(1)
    job.write("first")
    hold = commit_with_late_copy(proxy, job.commit)
    job.wait_for(1, "first")
    return hold


def test_a_late_end_txn_commits_half_of_the_next_transaction(proxied, job):
    """A kept producer has the same epoch in both: half of its second transaction is out, and the rest never can be."""
    proxy, _ = proxied
    hold = after_first(proxy, job)
    job.begin(2)
    job.write("half")

    assert job.committed() == (1, texts("first"))
    assert deliver(hold) == "NO_ERROR"
    job.wait_for(2, "first", "half")
    job.write("rest")
    with pytest.raises(KafkaException, match="invalid state"):  # as a replay starts at 2, the rest is lost
        job.commit()
    assert job.committed() == (2, texts("first") + texts("half"))


def test_a_new_producer_is_safe_from_it(proxied, job):
    """One that has taken over the transactional.id has a newer epoch: the late EndTxn is refused, nothing is lost."""
    proxy, _ = proxied
    hold = after_first(proxy, job)
    job.producer = job.new_producer()
    job.begin(2)
    job.write("half")

    assert deliver(hold) == "INVALID_PRODUCER_EPOCH"
    job.write("rest")
    assert job.committed() == (1, texts("first"))
    job.commit()
    job.wait_for(2, "first", "half", "rest")


# Another process, which can be ended in a call that hangs.
HANGING = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
servers, topic = sys.argv[1:]
group = Consumer({"bootstrap.servers": servers, "group.id": f"of-{topic}"}).consumer_group_metadata()
producer = Producer({"bootstrap.servers": servers, "transactional.id": f"writes-{topic}", "log_level": 0})
producer.init_transactions(30)
for offset in (1, 2):
    producer.begin_transaction()
    print("begun", flush=True)
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], group, 1.0)
    producer.commit_transaction(30)
print("done", flush=True)
"""


def test_send_offsets_hangs_after_a_cut(proxied):
    """A client that has lost all brokers begins anew, and waits for a dead one: librdkafka#5511, beyond any timeout."""
    proxy, kafka = proxied
    hold = proxy.hold(ApiKey.END_TXN)
    command = [sys.executable, "-c", HANGING, kafka.bootstrap_servers, create_topic(kafka.direct_servers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        hold.wait()
        proxy.cut()
        begun = [client.stdout.readline() for _ in range(2)]
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(5)
        client.kill()
        rest = client.stdout.read()
    hold.release()

    assert (begun, rest) == (["begun\n"] * 2, "")
