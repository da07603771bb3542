"""The limit: `consume()` alone, in a given number of processes, with consumers that are kept."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from confluent_kafka import Consumer, TopicPartition

from kafka_direct.options import ClientParams

kept = {}


class Limit:
    """Counts a backlog; a process per core shares out the partitions."""

    def __init__(self, processes):
        self._processes = processes
        self._pools = [ProcessPoolExecutor(1, get_context("spawn")) for _ in range(processes)]

    def count(self, backlog):
        shares = [list(enumerate(backlog.ends()))[index :: self._processes] for index in range(self._processes)]
        futures = [
            pool.submit(consume, backlog.bootstrap, backlog.topic, share)
            for pool, share in zip(self._pools, shares, strict=True)
        ]
        return sum(future.result() for future in futures)

    def close(self):
        for pool in self._pools:
            pool.shutdown()


def consume(bootstrap, topic, ends):
    """The number of records up to each partition's end, read by `consume()` and nothing else."""
    consumer = kept.get(bootstrap)
    if consumer is None:
        conf = ClientParams.parse({"bootstrap.servers": bootstrap}).for_executor()
        # By default the fetch pauses for a second whenever 64 MB are queued, which would not show the limit.
        conf |= {"enable.partition.eof": "false", "fetch.queue.backoff.ms": 1}
        consumer = kept[bootstrap] = Consumer(conf)
    gc.disable()
    consumer.assign([TopicPartition(topic, partition, 0) for partition, _ in ends])
    wanted, found = sum(end for _, end in ends), 0
    while found < wanted:
        found += sum(message.error() is None for message in consumer.consume(1000, 1.0))
    consumer.unassign()
    gc.enable()
    return found
