"""Writing records in a worker, with a producer that is kept for the next task.

At least once: a task that fails has written some of its records, and the task that takes its place writes them again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from kafka_direct.broker.failure import build_client, servers_of, translate_write
from kafka_direct.broker.idle import IdleClients

from .delivery import Undelivered, produce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka_direct.options import ClientParams

# How long to wait for acknowledgements while the producer's queue is full, before looking for errors again.
FULL_SECONDS = 0.5
FLUSH_SECONDS = 1.0

_idle: IdleClients[ClientParams, _Writing] = IdleClients()


def write_records(params: ClientParams, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Write records, each a topic and the keywords of `Producer.produce`; returns how many, once all are acknowledged.

    Raises:
        BrokerError: Kafka refused a record; the message names the topic and the reason.
        BrokerUnavailable: a record was not acknowledged in time.
    """
    with _producer(params) as writing:
        return writing.write(records)


def check_writer(params: ClientParams) -> None:
    """Refuse parameters that a worker's producer would not take, before a worker has to."""
    build_client(Producer, params.for_producer())


class _Writing:
    """A producer, and the first delivery that failed."""

    def __init__(self, params: ClientParams) -> None:
        self._servers = servers_of(params)
        self._undelivered = Undelivered()
        # Python hears of failures only: a call for each record written would cost as much as writing it.
        config = {"delivery.report.only.error": True}
        self._producer = build_client(Producer, params.for_producer() | config, on_delivery=self._undelivered)

    def write(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        count = 0
        for topic, record in records:
            self._enqueue(topic, record)
            count += 1
        while self._producer.flush(FLUSH_SECONDS) > 0:
            self._check()
        self._check()
        return count

    def _enqueue(self, topic: str, record: dict[str, Any]) -> None:
        while True:
            try:
                produce(self._producer, topic=topic, **record)
            except BufferError:
                self._producer.poll(FULL_SECONDS)
                self._check()
            except KafkaException as failure:
                raise translate_write(failure.args[0], topic, self._servers) from failure
            else:
                return

    def _check(self) -> None:
        if self._undelivered.error is not None:
            self._producer.purge()
            raise translate_write(self._undelivered.error, self._undelivered.topic, self._servers)


@contextmanager
def _producer(params: ClientParams) -> Iterator[_Writing]:
    """An idle producer of this process, or a new one; one that failed is not used again."""
    writing = _idle.take(params) or _Writing(params)
    yield writing
    _idle.keep(params, writing)
