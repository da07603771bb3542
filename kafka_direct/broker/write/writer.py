"""Writing records in a worker, with a producer that is kept for the next task.

At least once: a task that fails may have written some of its records, and when it runs again it writes them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.diagnosis import diagnose
from kafka_direct.broker.failure import build_client, client_log, servers_of, translate_write, unreachable
from kafka_direct.broker.idle import IdleClients

from .delivery import Undelivered, produce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_direct.options import ClientParams
    from kafka_direct.options.client_config import FilesState

# How long to wait for acknowledgements before errors are looked for again: while the queue is full, and at the end.
FULL_QUEUE_SECONDS = 0.5
FLUSH_SECONDS = 1.0
LOGIN_SECONDS = 10.0  # between two looks at why nothing is acknowledged

idle_producers: IdleClients[tuple[ClientParams, FilesState], _Writer] = IdleClients()


def write_records(params: ClientParams, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Write records, each a topic and the keywords of `Producer.produce`; returns how many, once all are acknowledged.

    Raises:
        BrokerError: Kafka refused a record; the message names the topic and the reason.
        BrokerUnavailable: a record was not acknowledged in time.
    """
    key = params, params.state_of_files()
    writer = idle_producers.take(key) or _Writer(params)
    count = writer.write(records)
    idle_producers.keep(key, writer)  # one that failed is not used again
    return count


def check_writer(params: ClientParams) -> None:
    """Refuse parameters that a worker's producer would not take, before a worker has to."""
    build_client(Producer, params.for_producer())


class _Writer:
    """A producer, and the first delivery that failed."""

    def __init__(self, params: ClientParams) -> None:
        self._params = params
        self._undelivered = Undelivered()
        # Only failures are reported: to call Python for each delivered record would cost as much as writing it.
        config = {"delivery.report.only.error": True}
        self._producer = build_client(Producer, params.for_producer() | config, on_delivery=self._undelivered)
        self._topic = ""  # of the last record

    def write(self, records: Iterable[tuple[str, dict[str, Any]]]) -> int:
        count = 0
        for topic, record in records:
            self._topic = topic
            self._enqueue(topic, record)
            count += 1
        look = Deadline(LOGIN_SECONDS)
        while self._serve(self._producer.flush, FLUSH_SECONDS) > 0:
            self._check()
            if look.is_over():
                self._check_login()
                look = Deadline(LOGIN_SECONDS)
        self._check()
        return count

    def _enqueue(self, topic: str, record: dict[str, Any]) -> None:
        while True:
            try:
                return produce(self._producer, topic=topic, **record)
            except BufferError:
                self._serve(self._producer.poll, FULL_QUEUE_SECONDS)
                self._check()
            except KafkaException as failure:
                if failure.args[0].code() == KafkaError._FATAL:  # noqa: SLF001  underscored by name
                    self._serve(self._producer.poll, 0)  # raises why
                raise translate_write(failure.args[0], topic, self._params) from failure

    def _serve(self, call: Callable[[float], int], seconds: float) -> int:
        """Have the client call back. It raises a fatal error there, in whichever callback comes next."""
        try:
            return call(seconds)
        except (KafkaException, SystemError) as failure:
            fatal = failure if isinstance(failure, KafkaException) else failure.__cause__
            if not isinstance(fatal, KafkaException):
                raise
            self._producer.purge()
            raise translate_write(fatal.args[0], self._topic, self._params) from fatal

    def _check_login(self) -> None:
        """A record waits for five minutes for a broker that is away; a wrong login need not be waited for."""
        found = diagnose(self._params, client_log.complaint(servers_of(self._params)))
        if found is not None and found.is_final:
            self._producer.purge()
            raise unreachable("the records wait", "writing records", self._params)

    def _check(self) -> None:
        if self._undelivered.error is not None:
            self._producer.purge()
            raise translate_write(self._undelivered.error, self._undelivered.topic, self._params)
