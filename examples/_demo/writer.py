"""`Writer`: writes the records that the job reads."""

import math
import random
import threading
import time

from confluent_kafka import Producer

WEIGHTS = (3, 2, 1)  # of what is written, per partition


class Writer(threading.Thread):
    """Writes words, all different, at a rate that rises and falls; `acknowledged` are those that Kafka has.

    After `limit` it writes slowly, so that records are left to read after the kill, and after the recovery.
    """

    SECONDS = 24  # for all records, at full pace
    WAVE_SECONDS = 6
    TICK_SECONDS = 0.05
    TRICKLE = 0.05  # of the full pace

    def __init__(self, brokers, topic, records):
        super().__init__(daemon=True)
        self.topic, self.records, self.limit = topic, records, records // 2
        self.acknowledged = []
        self.failure = None
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "log_level": 0})
        self._random = random.Random(7)  # the same demo each time
        self._written = 0
        self._ended = threading.Event()

    def write(self, until):
        for number in range(self._written, until):
            partition = self._random.choices(range(len(WEIGHTS)), WEIGHTS)[0]
            self._producer.produce(self.topic, f"word-{number:06}", partition=partition, on_delivery=self._delivered)
        self._written = until
        self._producer.poll(0)

    def run(self):
        start, due = time.monotonic(), float(self._written)
        while self._written < self.records and not self._ended.wait(self.TICK_SECONDS):
            wave = 1 - 0.8 * math.cos(2 * math.pi * (time.monotonic() - start) / self.WAVE_SECONDS)
            pace = wave if due < self.limit else self.TRICKLE
            due = min(due + pace * self.records * self.TICK_SECONDS / self.SECONDS, self.records)
            self.write(int(due))
        self._producer.flush(30)

    def end(self):
        self._ended.set()

    def is_done(self):
        return len(self.acknowledged) == self.records

    def _delivered(self, error, message):
        if error is None:
            self.acknowledged.append(message.value().decode())
        else:
            self.failure = error
