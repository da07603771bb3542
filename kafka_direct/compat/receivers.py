"""Receivers, by direct streams: what `createStream` gives.

In 2.4 each `createStream` was one consumer of its group, and Kafka shared a topic's partitions among those of a group;
with more consumers than partitions some had nothing. Here the first one reads all of a topic, with a task for each
partition, and the others of that group have nothing of it. So their union has each record once, however many there
are, and a job may change their number without a change of its position (docs/decisions/0084).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.streaming import StreamingContext

from kafka_direct.checkpointed import persisted
from kafka_direct.connect import is_connect, refuse_connect
from kafka_direct.dstream.spec import Receivers
from kafka_direct.dstream.stream import open_stream
from kafka_direct.errors import ArgumentTypeError, ConfigError

from .params import translate_old_params

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.streaming import DStream

    from kafka_direct.decode.elements import Elements

log = logging.getLogger("kafka_direct")

SERVERS = ("bootstrap.servers", "metadata.broker.list")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A `createStream` that reads: as whom, which topics, and for how many it stands."""

    member: tuple[str, str]  # the brokers and the group
    topics: frozenset[str]
    stream: DStream[Any]
    receivers: Receivers


class Spare:
    """What a consumer that has no partition makes of each batch of the one that has them: nothing."""

    def __call__(self, rdd: RDD[Any]) -> RDD[Any]:
        return rdd.ctx.emptyRDD()

    @classmethod
    def revived(cls, _version: int, _state: None) -> Spare:
        return cls()

    def __reduce__(self) -> tuple[Any, ...]:
        return persisted(self, "spare-receiver", None)


def create_receiver(  # noqa: PLR0913, PLR0917  PySpark 2.4's arguments
    ssc: StreamingContext,
    zookeeper: Any,
    group: str,
    topics: Any,
    kafka_params: Any,
    storage_level: Any,
    elements: Elements,
) -> DStream[Any]:
    if is_connect(ssc):
        raise refuse_connect("a stream of receivers", "read with spark.readStream.format('kafka_direct').")
    if not isinstance(ssc, StreamingContext):
        raise ArgumentTypeError(f"ssc must be a StreamingContext; it is a {type(ssc).__name__}.")
    _check_topics(topics)
    if not isinstance(storage_level, StorageLevel):
        raise ArgumentTypeError(f"storageLevel must be a StorageLevel; it is {storage_level!r}.")
    params = translate_old_params({} if kafka_params is None else kafka_params) | {"group.id": group}
    servers = next((params[key] for key in SERVERS if params.get(key)), None)
    if servers is None:
        raise ConfigError(
            f"createStream knows only ZooKeeper at {zookeeper!r}, which is not asked here; give the brokers, as in "
            "kafkaParams={'bootstrap.servers': 'host:9092'}."
        )
    member = (",".join(sorted(server.strip() for server in str(servers).split(","))), str(group))
    others = [other for other in _receivers_of(ssc) if other.member == member and not other.topics.isdisjoint(topics)]
    new = sorted(set(topics).difference(*(other.topics for other in others)))
    if others:
        log.info("group %s: another stream of this context reads all of %s", group, sorted(set(topics).difference(new)))
    if not new:
        others[0].receivers.count += 1
        return others[0].stream.transform(Spare())
    receivers = Receivers()
    stream = open_stream(ssc, new, params, elements, receivers=receivers)
    _receivers_of(ssc).append(Receiver(member=member, topics=frozenset(new), stream=stream, receivers=receivers))
    return stream


def _check_topics(topics: Any) -> None:
    if not isinstance(topics, dict):
        raise ArgumentTypeError(
            f"topics should be dict, of a topic to its number of threads; it is a {type(topics).__name__}."
        )
    if not topics:
        raise ConfigError("topics is empty; give each topic and its number of threads, as in {'orders': 1}.")
    for topic, threads in topics.items():
        if not isinstance(threads, int) or threads < 1:
            raise ConfigError(
                f"topics has {threads!r} threads for {topic!r}; give a whole number from 1 on (it has no effect here)."
            )


def _receivers_of(ssc: StreamingContext) -> list[Receiver]:
    """Those of a context, which end with it."""
    receivers: list[Receiver] = vars(ssc).setdefault("_kafka_direct_receivers", [])
    return receivers
