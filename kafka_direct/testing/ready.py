"""A cluster is ready when it has taken a record, not when a port is open."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from .topic import client_settings, create_topic, delete_topic, metadata, produce
from .wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]


def wait_until_ready(
    bootstrap: str, cluster_id: str, nodes: int, *, alive: Callable[[], object], timeout: float
) -> None:
    """Return once all nodes are there and have replicated a record; the topic for it is deleted.

    `cluster_id` is compared, because another Kafka may have taken a port in the meantime, and answers there.
    `alive` is called while waiting, and raises if a node has ended.

    Raises:
        BrokerUnavailable: they were not ready after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    client = AdminClient(client_settings(bootstrap))

    def are_there() -> bool:
        alive()
        cluster = metadata(client)
        return cluster is not None and cluster.cluster_id == cluster_id and len(cluster.brokers) == nodes

    wait_until(are_there, f"{nodes} Kafka node(s)", timeout=timeout)
    left = max(1.0, deadline - time.monotonic())
    probe = create_topic(bootstrap, partitions=nodes, replication=nodes, timeout=left)
    for partition in range(nodes):
        produce(bootstrap, probe, [b"ready?"], partition=partition, timeout=left)
    delete_topic(bootstrap, probe, timeout=left)


def is_in_sync(node: int, cluster: ClusterMetadata | None) -> bool:
    """Whether a node is part of the cluster and in sync in every partition it has a replica of."""
    if cluster is None or node not in cluster.brokers:
        return False
    partitions = (p for topic in cluster.topics.values() for p in topic.partitions.values())
    return all(p.leader in p.isrs and node in p.isrs for p in partitions if node in p.replicas)
