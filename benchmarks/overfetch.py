"""Bytes fetched for each byte used, and the time it takes, when rate limits cut a backlog into many small ranges."""

from __future__ import annotations

import json
from uuid import uuid4

from benchmarks.contest import Contest
from kafka_direct import OffsetRange
from kafka_direct.broker.fetch import reader
from kafka_direct.broker.fetch.worker_consumer import build_fastest
from kafka_direct.options import ClientParams

# The defaults of a consumer.
LIBRDKAFKAS_OWN = {
    "fetch.message.max.bytes": 1 << 20,
    "fetch.queue.backoff.ms": 1000,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 64 << 10,
}


class Received:
    """Counts the bytes that the consumers of its own client id received, by their statistics."""

    def __init__(self, bootstrap, **given):
        self._by_client = {}
        # Its own id: consumers of earlier readings are kept, and their counts go on.
        keys = {"bootstrap.servers": bootstrap, "client.id": uuid4().hex, "statistics.interval.ms": 20}
        self.params = ClientParams.parse(keys | {"stats_cb": self._take} | given)

    def _take(self, text):
        stats = json.loads(text)
        self._by_client[stats["name"]] = stats["rx_bytes"]

    def bytes(self):
        for key, consumer in reader.idle_consumers.kept():
            if key[0] != self.params:
                continue
            reader.idle_consumers.take(key)
            for _ in range(4):
                consumer.client.poll(0.05)  # its last statistics
            consumer.close()  # if kept, it would send statistics for ever
        return sum(self._by_client.values())


def bytes_received(backlog, batches, **given):
    """The bytes over the wire while one process reads the backlog in `batches` batches, a range per partition each."""
    received = Received(backlog.bootstrap, **given)
    records = count(backlog, batches, received.params)
    assert records == backlog.records, f"{records} of {backlog.records} records were read"
    return received.bytes()


def cut(backlog, batches):
    """The same, timed."""

    def by(**given):
        params = ClientParams.parse({"bootstrap.servers": backlog.bootstrap} | given)
        return lambda: count(backlog, batches, params)

    contestants = {"librdkafka's own fetch sizes": by(**LIBRDKAFKAS_OWN), "sized by the range": by()}
    title = f"{batches} batches of {backlog.value_bytes // batches // backlog.partitions >> 10} KB a partition"
    return Contest(title, contestants, backlog.records, backlog.records, "librdkafka's own fetch sizes")


def count(backlog, batches, params):
    ranges = (
        OffsetRange(backlog.topic, partition, end * batch // batches, end * (batch + 1) // batches)
        for batch in range(batches)
        for partition, end in enumerate(backlog.ends())
    )
    return sum(len(chunk) for range_ in ranges for chunk in reader.read_chunks(build_fastest, params, range_))
