"""A KafkaSink's output as its readers see it, and drivers that write it without Spark."""

import time
from contextlib import suppress
from dataclasses import dataclass

from kafka_direct.broker import Cluster
from kafka_direct.broker.fetch.reader import read_chunks
from kafka_direct.broker.fetch.worker_consumer import MessageConsumer
from kafka_direct.errors import BrokerUnavailable
from kafka_direct.offsets import OffsetRange
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.sinks import KafkaSink
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.kafka.claim import KafkaClaim
from kafka_direct.sinks.kafka.store import KafkaStore
from kafka_direct.testing import wait_until


def r(topic, start, until, partition=0):
    return OffsetRange(topic, partition, start, until)


class Output:
    """A topic as its readers see it: what is committed."""

    def __init__(self, servers, topic):
        self.topic, self.servers = topic, {"bootstrap.servers": servers}
        self._params = ClientParams.parse(self.servers | {"isolation.level": "read_committed"})

    def _ends(self, isolation):
        cluster = Cluster(ClientParams.parse(self.servers | {"isolation.level": isolation}))
        partitions, topic_ids = cluster.find_partitions(Subscription.parse([self.topic]))
        return cluster.find_offsets(partitions, topic_ids).latest

    def records(self):
        # A commit is answered before its markers stand in the partitions; what stays open is no part of the answer.
        with suppress(BrokerUnavailable):
            wait_until(lambda: self._ends("read_committed") == self._ends("read_uncommitted"), "markers", timeout=5)
        ends = self._ends("read_committed")
        ranges = [OffsetRange(p.topic, p.partition, 0, end) for p, end in sorted(ends.items())]
        chunks = (chunk for range_ in ranges for chunk in read_chunks(MessageConsumer, self._params, range_))
        return [message for chunk in chunks for message in chunk.messages]

    def values(self):
        return [message.value().decode() for message in self.records()]

    def sink(self, name="copy", **params):
        return KafkaSink(self.servers | params, self.topic, name=f"{name}-of-{self.topic}")

    def store(self, **params):
        params = ClientParams.parse(self.servers | params)
        return KafkaStore(params=params, name=f"copy-of-{self.topic}", topic=self.topic)

    def driver(self, owner="me", **params):
        return Driver.of(self.store(**params), owner)


@dataclass
class Driver:
    """A driver that has claimed the output, and its tasks."""

    store: KafkaStore
    claim: KafkaClaim

    @classmethod
    def of(cls, store, owner="me", now=None):
        return cls(store, store.drivers.claim(owner, time.time() if now is None else now))

    def write(self, ranges, records, losses=(), batch_id=None):
        """A batch of one range, as a sink writes it."""
        batch = KafkaBatch(tuple(ranges), tuple(losses), batch_id)
        self.store.take_over(self.claim, batch)
        return self.store.save_part(self.claim, batch, records)

    def is_saved(self, ranges, losses):
        return self.store.is_saved(self.claim, KafkaBatch(tuple(ranges), tuple(losses)))
