"""What only a fake cluster can do: logs that are cut, topics out of sight, brokers that fail when a test says so."""

import re
import subprocess
import sys

import pytest

from kafka_direct.errors import BrokerError, BrokerUnavailable, ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import Subscription
from kafka_direct.testing import FakeKafka

PLACE = TopicPartition("orders", 0)
ORDERS = Subscription.parse(["orders"])


@pytest.fixture
def kafka():
    """One topic of one partition with ten records."""
    kafka = FakeKafka()
    kafka.create_topic("orders")
    kafka.append("orders", 0, 10, timestamp_ms=1000)
    return kafka


def end(kafka, isolation="read_uncommitted"):
    return kafka.brokers(isolation=isolation).find_available(ORDERS).latest.get(PLACE)


# -- what happens to a cluster


def test_a_truncated_log(kafka):
    """What was cut is written again, and found under its new time; a transaction that began in it is gone."""
    transaction = kafka.open_transaction("orders", 0)
    transaction.append(5, timestamp_ms=3000)
    kafka.truncate("orders", 0, 4)
    assert (end(kafka), end(kafka, "read_committed")) == (4, 4)

    kafka.append("orders", 0, 3, timestamp_ms=2000)

    assert end(kafka) == 7
    assert kafka.brokers().find_times({PLACE: 1001}) == {PLACE: 4}


def test_a_log_is_cut_before_its_first_offset(kafka):
    """The first offset is never behind the end, and nothing is left of the times before it."""
    kafka.delete_records("orders", 0, 8)
    kafka.truncate("orders", 0, 4)
    available = kafka.brokers().find_available(ORDERS)
    assert (available.earliest[PLACE], available.latest[PLACE]) == (4, 4)
    kafka.append("orders", 0, 3, timestamp_ms=500)
    assert kafka.brokers().find_times({PLACE: 1000}) == {PLACE: None}


def test_records_without_a_timestamp(kafka):
    """They have that of the newest record in the cluster, also if an older one was appended after it."""
    other = kafka.create_topic()
    kafka.append(other, 0, 1, timestamp_ms=3000)
    kafka.append(other, 0, 1, timestamp_ms=2000)

    kafka.append("orders", 0, 1)

    assert kafka.brokers().find_times({PLACE: 3000}) == {PLACE: 10}
    assert kafka.brokers().find_times({PLACE: 3001}) == {PLACE: None}


def test_old_brokers_give_no_ids(kafka):
    """As those before 2.8; they can be upgraded."""
    kafka.gives_topic_ids = False
    assert (
        kafka.brokers().find_available(ORDERS).topic_ids == kafka.brokers().find_topic_ids(["orders"], seconds=1) == {}
    )
    kafka.gives_topic_ids = True
    assert kafka.brokers().find_available(ORDERS).topic_ids.keys() == {"orders"}


def test_runs_are_the_same():
    """Names and ids count up: two runs of a test see the same ones."""
    first, second = (
        kafka.brokers().find_available(Subscription.parse([kafka.create_topic()]))
        for kafka in (FakeKafka(), FakeKafka())
    )

    assert first == second
    assert all(re.fullmatch("[A-Za-z0-9_-]{22}", topic_id) for topic_id in first.topic_ids.values())


def test_mistakes_of_a_test_are_errors(kafka):
    """A test that names what is not there hears of it."""
    with pytest.raises(ValueError, match="there is a topic orders already"):
        kafka.create_topic("orders")
    with pytest.raises(ValueError, match="the partition ends at 10; offset 11"):
        kafka.delete_records("orders", 0, 11)
    with pytest.raises(ValueError, match="the partition ends at 10; offset 11"):
        kafka.truncate("orders", 0, 11)
    with pytest.raises(KeyError, match="read_comitted"):
        kafka.brokers(isolation="read_comitted")


# -- brokers that do not answer


def test_brokers_go_away_and_come_back(kafka):
    """After so many answers none comes, of no kind and for no stream; afterwards all is as it was."""
    brokers = kafka.brokers("billing")
    kafka.go_away(after=1)
    assert end(kafka) == 10
    for ask in (
        lambda: kafka.brokers().find_available(ORDERS),
        lambda: brokers.require_available(ORDERS),
        lambda: brokers.find_topic_ids(["orders"], seconds=1),
        lambda: brokers.find_times({PLACE: 0}),
        lambda: brokers.committed([PLACE]),
        lambda: brokers.commit({PLACE: 5}),
    ):
        with pytest.raises(BrokerUnavailable, match="no answer from Kafka at fake:9092 while "):
            ask()

    kafka.come_back()

    assert end(kafka) == 10
    assert brokers.committed([PLACE]) == {}


def test_questions_fail_one_by_one(kafka):
    """The next of any kind, or the next of one kind while others are answered; not answered, or refused."""
    brokers = kafka.brokers("billing")
    kafka.fail_next(2)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable):
            brokers.find_available(ORDERS)
    kafka.refuse_next(of="commit")
    assert brokers.find_available(ORDERS).latest == {PLACE: 10}
    with pytest.raises(BrokerError, match="Kafka at fake:9092 refused while committing offsets of group billing"):
        brokers.commit({PLACE: 3})

    brokers.commit({PLACE: 5})

    assert kafka.groups == {"billing": {PLACE: 5}}


def test_questions_are_noted(kafka):
    """In the order they were asked, also those without an answer; not those that need none."""
    brokers = kafka.brokers("billing")
    brokers.find_times({})
    brokers.committed([])
    brokers.commit({})
    brokers.find_topic_ids([], seconds=1)
    kafka.brokers().committed([PLACE])
    assert kafka.questions == []

    kafka.fail_next()
    with pytest.raises(BrokerUnavailable):
        brokers.committed([PLACE])
    brokers.require_available(ORDERS)
    brokers.find_times({PLACE: 0})

    assert kafka.questions == ["committed", "require_available", "find_times"]


# -- brokers that have not caught up


def test_an_answer_of_a_broker_that_is_behind(kafka):
    """An earlier end, then none at all, then what is true; another partition is answered as ever."""
    kafka.add_partitions("orders")
    kafka.fall_behind("orders", 0, end=4)
    kafka.fall_behind("orders", 0, end=None, questions=2)
    brokers = kafka.brokers()

    answers = [brokers.find_available(ORDERS) for _ in range(4)]

    assert [answer.latest.get(PLACE) for answer in answers] == [4, None, None, 10]
    assert [answer.earliest.get(PLACE) for answer in answers] == [0, None, None, 0]
    assert all(answer.latest[TopicPartition("orders", 1)] == 0 for answer in answers)


def test_what_is_required_is_awaited(kafka):
    """A broker that does not know a topic yet is asked again; one that never will is believed."""
    kafka.fall_behind("orders", 0, end=None, questions=3)
    assert kafka.brokers().require_available(ORDERS).latest == {PLACE: 10}

    kafka.create_topic("other")
    kafka.fall_behind("orders", 0, end=None)
    kafka.fall_behind("other", 0, end=None)  # not asked about
    with pytest.raises(ConfigError, match="there is no topic clicks on Kafka at fake:9092"):
        kafka.brokers().require_available(Subscription.parse(["orders", "clicks"]))


@pytest.mark.pyspark("4.0")  # an older one is told of the format that it lacks
def test_the_fake_needs_neither_java_nor_a_client():
    """Tests that use it start without the libraries that they do without."""
    code = (
        "import sys; from kafka_direct.testing import FakeKafka; FakeKafka().brokers(); "
        "print(*{'confluent_kafka', 'pyspark', 'py4j', 'pyarrow'} & sys.modules.keys())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
