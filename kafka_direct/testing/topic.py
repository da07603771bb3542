"""Topics and records for tests, each visible or acknowledged when the call returns."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not declare
    AdminClient,
    ClusterMetadata,
    NewTopic,
    TopicMetadata,
)

from kafka_direct.errors import BrokerUnavailable

from .wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

METADATA_SECONDS = 2.0


class Delivered(NamedTuple):
    """Where a record ended up."""

    partition: int
    offset: int


def client_settings(bootstrap: str) -> dict[str, Any]:
    """Settings for a client that waits for brokers: a refused connection is not logged, and is tried again soon."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200}


def create_topic(  # noqa: PLR0913
    bootstrap: str,
    name: str | None = None,
    *,
    partitions: int = 1,
    replication: int = 1,
    config: Mapping[str, str] | None = None,
    timeout: float = 30.0,
) -> str:
    """Create a topic, by default of a unique name, and return its name once every broker can serve it."""
    name = name or f"test-{uuid.uuid4().hex[:12]}"
    topic = NewTopic(name, partitions, replication, config=dict(config or {}))
    client = AdminClient(client_settings(bootstrap))  # kept until the answer: a client that is freed never answers
    client.create_topics([topic], request_timeout=timeout)[name].result(timeout)

    def is_served(cluster: ClusterMetadata) -> bool:
        return name in cluster.topics and _is_whole(cluster.topics[name], partitions, replication)

    _wait_everywhere(bootstrap, is_served, f"topic {name} on every broker", timeout)
    return name


def delete_topic(bootstrap: str, *names: str, timeout: float = 30.0) -> None:
    """Delete topics and return once no broker shows them; a topic that does not exist is skipped."""
    if not names:
        return
    client = AdminClient(client_settings(bootstrap))
    for deleted in client.delete_topics(list(names), request_timeout=timeout).values():
        try:
            deleted.result(timeout)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    _wait_everywhere(
        bootstrap, lambda cluster: not cluster.topics.keys() & set(names), f"the end of {', '.join(names)}", timeout
    )


def produce(  # noqa: PLR0913
    bootstrap: str,
    topic: str,
    values: Iterable[str | bytes | None],
    *,
    partition: int | None = None,
    keys: Iterable[str | bytes | None] | None = None,
    headers: Iterable[list[tuple[str, bytes | None]]] | None = None,
    timestamps: Iterable[int] | None = None,
    config: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
) -> list[Delivered]:
    """Write records, in order, and return the place of each, once all in-sync replicas have it.

    `keys`, `headers` and `timestamps` (milliseconds) have one entry for each value; librdkafka takes a timestamp of 0
    as now. Without `partition` the key decides, as with any producer.
    `config` adds settings of the producer, or replaces them: `{"enable.idempotence": True}` keeps records from being
    written twice while nodes are killed, and costs half a second at first.
    """
    values = list(values)
    rows = zip(values, *(_column(given, len(values)) for given in (keys, headers, timestamps)), strict=True)
    producer = Producer({**client_settings(bootstrap), "acks": "all", **(config or {})})
    fixed = {} if partition is None else {"partition": partition}
    delivered: dict[int, Delivered] = {}
    for place, (value, key, header, timestamp) in enumerate(rows):
        record = {"value": value, "key": key, "headers": header, "timestamp": timestamp or 0, **fixed}
        _enqueue(producer, topic, record, _note(delivered, place))
    producer.flush(timeout)
    if len(delivered) < len(values):
        raise BrokerUnavailable(
            f"Of {len(values)} records for topic {topic}, {len(delivered)} were acknowledged within {timeout:g} s."
        )
    return [delivered[place] for place in range(len(values))]


def _column(given: Iterable[Any] | None, count: int) -> list[Any]:
    return [None] * count if given is None else list(given)


def _note(delivered: dict[int, Delivered], place: int) -> Callable[[KafkaError | None, Message], None]:
    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)  # comes out of the producer's poll() or flush()
        delivered[place] = Delivered(cast("int", message.partition()), cast("int", message.offset()))

    return acknowledged


def _enqueue(producer: Producer, topic: str, record: dict[str, Any], acknowledged: Callable[..., None]) -> None:
    """Queue a record, waiting for acknowledgements while the queue is full."""
    while True:
        try:
            producer.produce(topic, on_delivery=acknowledged, **record)
        except BufferError:
            producer.poll(1.0)
        else:
            producer.poll(0)
            return


def metadata(client: AdminClient) -> ClusterMetadata | None:
    """The cluster's metadata from the broker that is asked; None while it does not answer."""
    try:
        return client.list_topics(timeout=METADATA_SECONDS)
    except KafkaException:
        return None  # refused, timed out, or not ready: the caller asks again until its deadline


def _is_whole(topic: TopicMetadata, partitions: int, replication: int) -> bool:
    """Whether each partition has a leader, and all its replicas in sync."""
    whole = [p for p in topic.partitions.values() if p.leader in p.isrs and len(p.isrs) == replication]
    return len(whole) == partitions


def _wait_everywhere(bootstrap: str, holds: Callable[[ClusterMetadata], bool], what: str, timeout: float) -> None:
    """Wait until the metadata of every broker, asked one by one, fulfils a condition."""
    clients: dict[str, AdminClient] = {}

    def holds_at(address: str) -> bool:
        # One client per broker: a client that knows other brokers may ask those instead.
        if address not in clients:
            clients[address] = AdminClient(client_settings(address))
        answer = metadata(clients[address])
        return answer is not None and holds(answer)

    def holds_everywhere() -> bool:
        known = metadata(client)
        return known is not None and all(holds_at(f"{b.host}:{b.port}") for b in known.brokers.values())

    client = AdminClient(client_settings(bootstrap))
    wait_until(holds_everywhere, what, timeout=timeout)
