"""What planning a batch asks of the brokers: a round trip per broker and kind of question, not per partition."""

import json
import time

import pytest

from kafka_direct import testing
from kafka_direct.broker import Cluster
from kafka_direct.errors import BrokerUnavailable, ConfigError
from kafka_direct.offsets import TopicPartition
from kafka_direct.options import ClientParams, Subscription


class RequestCount:
    """The requests a client has sent so far, by kind, as librdkafka's statistics count them."""

    def __init__(self):
        self.by_kind = {}

    def __call__(self, statistics):
        self.by_kind = {}
        for broker in json.loads(statistics)["brokers"].values():
            for kind, count in broker["req"].items():
                self.by_kind[kind] = self.by_kind.get(kind, 0) + count


def settled(cluster, count):
    """The counts after two more reports of the statistics."""
    for _ in range(2):
        before, count.by_kind = count.by_kind, {}
        testing.wait_until(lambda: cluster.connection._admin.poll(0.05) or count.by_kind, "statistics")
    return dict(count.by_kind or before)


def test_requests_do_not_grow_with_partitions(kafka, kafka_topic):
    """Planning a batch of 200 partitions sends as many requests as planning one of 20: one a broker and question."""
    grown = []
    for partitions in (20, 200):
        count = RequestCount()
        params = {"bootstrap.servers": kafka.bootstrap_servers, "statistics.interval.ms": 100, "stats_cb": count}
        cluster = Cluster(ClientParams.parse(params))
        subscription = Subscription.parse([kafka_topic(partitions)])
        cluster.find_available(subscription)  # connects, and finds the leaders
        before = settled(cluster, count)
        for _ in range(5):
            assert len(cluster.find_available(subscription).latest) == partitions
        after = settled(cluster, count)
        grown.append({kind: after[kind] - before.get(kind, 0) for kind in after if after[kind] > before.get(kind, 0)})

    assert grown[0] == grown[1]
    brokers = len(cluster.connection._admin.list_topics(timeout=10).brokers)
    assert grown[1]["ListOffsets"] == 5 * 2 * brokers  # earliest and latest


def test_unreachable_brokers_are_named_in_bounded_time():
    """With no broker at the address, the first question ends within its limit and says which address that was."""
    cluster = Cluster(ClientParams.parse({"bootstrap.servers": "127.0.0.1:1"}))
    began = time.monotonic()
    with pytest.raises(
        BrokerUnavailable, match=r"127\.0\.0\.1:1 while describing orders: nothing answers at 127\.0\.0\.1:1"
    ):
        cluster.find_available(Subscription.parse(["orders"]))
    assert time.monotonic() - began < 30


def test_a_topic_that_is_deleted_between_two_questions(kafka, kafka_topic, monkeypatch):
    """What was there when it was looked for, and is gone when its end is asked, is left out, or refused by name."""
    there, gone = kafka_topic(), kafka_topic()
    cluster = Cluster(ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers}))
    subscription = Subscription.parse([there, gone])
    found = cluster.find_partitions(subscription)
    testing.delete_topic(kafka.bootstrap_servers, gone)
    ask, answers = cluster.find_partitions, [found, found]
    monkeypatch.setattr(cluster, "find_partitions", lambda wanted: answers.pop() if answers else ask(wanted))

    assert cluster.find_available(subscription).latest == {TopicPartition(there, 0): 0}
    with pytest.raises(ConfigError, match=f"there is no topic {gone} on Kafka"):
        cluster.require_available(subscription)
