"""The kafkaParams of Kafka 0.8's consumers, as jobs of PySpark 2.4 have them."""

from __future__ import annotations

import logging
from typing import Any

from kafka_direct.errors import ArgumentTypeError

log = logging.getLogger("kafka_direct")

# What 0.8's consumers did and nobody does here: talk to ZooKeeper, share partitions, commit by the clock. Jobs that
# write to Kafka, too, have given the producer's keys in the same dict.
# `auto.offset.reset`, `fetch.*` and `socket.*` are still called so, `metadata.broker.list` is translated.
MEANINGLESS = frozenset(
    {
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "consumer.id",
        "consumer.timeout.ms",
        "dual.commit.enabled",
        "enable.auto.commit",
        "key.serializer.class",
        "num.consumer.fetchers",
        "offsets.channel.backoff.ms",
        "offsets.channel.socket.timeout.ms",
        "offsets.commit.max.retries",
        "offsets.storage",
        "partition.assignment.strategy",
        "queued.max.message.chunks",
        "rebalance.backoff.ms",
        "rebalance.max.retries",
        "refresh.leader.backoff.ms",
        "request.required.acks",
        "request.timeout.ms",
        "serializer.class",
    }
)


def translate_old_params(kafka_params: Any) -> dict[str, Any]:
    """Give the parameters without those that mean nothing here, which are logged; the caller's dict stays as it is.

    >>> translate_old_params({"metadata.broker.list": "host:9092", "zookeeper.connect": "host:2181"})
    {'metadata.broker.list': 'host:9092'}
    """
    if not isinstance(kafka_params, dict):
        raise ArgumentTypeError(f"kafkaParams should be dict; it is a {type(kafka_params).__name__}.")
    left_out = sorted(key for key in kafka_params if _is_meaningless(key))
    if left_out:
        log.warning(
            "kafkaParams has %s, which Kafka 0.8's consumers needed and nothing reads here: there is no ZooKeeper, and "
            "finished work is committed to the group.id",
            ", ".join(left_out),
        )
    return {key: value for key, value in kafka_params.items() if key not in left_out}


def _is_meaningless(key: Any) -> bool:
    return isinstance(key, str) and (key in MEANINGLESS or key.startswith("zookeeper."))
