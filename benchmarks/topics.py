"""Topics full of records, and the right answers about them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from confluent_kafka import Producer

from kafka_direct.testing import create_topic

KINDS = ("open", "paid", "sent", "lost", "back")
WORDS = tuple(f"word{number}" for number in range(200))


@dataclass(frozen=True)
class Backlog:
    """`records` in `topic`, as many in each partition (give or take one)."""

    bootstrap: str
    topic: str
    partitions: int
    records: int
    value_bytes: int

    def ends(self):
        return [len(range(p, self.records, self.partitions)) for p in range(self.partitions)]


def order(number, size):
    """A JSON record of `size` bytes."""
    record = {"id": number, "kind": KINDS[number % len(KINDS)], "amount": number % 97, "note": ""}
    text = json.dumps(record)
    return text[:-2] + "x" * (size - len(text)) + '"}'


def amounts(records):
    """The right answer of the JSON aggregation: the sum of amounts, by kind."""
    sums = dict.fromkeys(KINDS[:records], 0)
    for number in range(records):
        sums[KINDS[number % len(KINDS)]] += number % 97
    return sums


def line(number, size):
    """Words, until there are `size` bytes."""
    words, length = [], 0
    while length < size:
        words.append(WORDS[(number * 7 + len(words) * 13) % len(WORDS)])
        length += len(words[-1]) + 1
    return " ".join(words)


def word_total(records, size):
    return sum(line(number, size).count(" ") + 1 for number in range(records))


def fill(bootstrap, make, *, records, partitions=4, size=150, compression="none", batch_bytes=16_384):
    """A new topic with `make(number, size)` in it, produced in batches of Java's default size."""
    topic = create_topic(bootstrap, partitions=partitions, timeout=120)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": compression,
            "batch.size": max(batch_bytes, 2 * size),
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    length = 0
    for number in range(records):
        value = make(number, size).encode()
        length += len(value)
        while True:
            try:
                producer.produce(topic, value, key=str(number % 1000), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    if producer.flush(120) > 0:
        raise TimeoutError(f"{topic} was not filled in time")
    return Backlog(bootstrap, topic, partitions, records, length)
