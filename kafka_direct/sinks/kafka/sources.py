"""Whether the partitions of a stream are on the cluster that a KafkaSink writes to: their offsets are kept there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.broker import Cluster
from kafka_direct.broker.ask.cluster import NEW_TOPIC_SECONDS
from kafka_direct.broker.deadline import Deadline, look_again
from kafka_direct.errors import ConfigError
from kafka_direct.options import Subscription

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.options import ClientParams


def require_sources(params: ClientParams, output: str, partitions: Collection[TopicPartition]) -> None:
    """Refuse a stream that comes from another cluster, unless that one's topics are mirrored here.

    Raises:
        ConfigError: a partition is not there.
    """
    cluster = Cluster(params)

    def missing() -> list[TopicPartition]:
        # By name: a list of all topics leaves out those that this user may not see.
        found, _ = cluster.find_partitions(Subscription(partitions=frozenset(partitions)))
        return sorted(set(partitions) - found)

    # A broker may not know a new topic yet.
    if names := look_again(missing, Deadline(NEW_TOPIC_SECONDS), is_enough=lambda missing: not missing):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ConfigError(
            f"output {output} keeps the offsets of its source on Kafka at {cluster.connection.servers}, where there is "
            f"no {', '.join(map(str, names[:3]))}{more}: a KafkaSink writes to the cluster that its stream reads, or "
            "to one that has topics of the same names and as many partitions; mirror or create them there, or take "
            "another sink."
        )
