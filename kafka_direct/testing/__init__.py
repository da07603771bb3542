"""A real Kafka for tests, yours and this package's own, and a fake one for tests of what is planned.

    from kafka_direct.testing import LocalKafka, create_topic, produce

    with LocalKafka() as kafka:
        topic = create_topic(kafka.bootstrap_servers, partitions=3)
        produce(kafka.bootstrap_servers, topic, ["a", "b"])

`LocalKafka(security=Security())` asks who one is, and `LocalOidc` has tokens (docs/security.md).
Under pytest the fixtures `kafka`, `kafka_topic` and `kafka_produce` do the same.
`LocalProxy` stands before a `LocalKafka` and has the faults of a network: delays, stalls, cuts, lost answers, single
requests that are held by their `ApiKey`.
`FakeKafka` needs no Kafka: it has offsets and no records.
`LocalHdfs` and `LocalS3` are stores for checkpoints, which can be killed, frozen and made to fail.
`LocalYarn` is a cluster for `--master yarn`.
Every pytest run loads this where the package is installed, so nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .certificates import Certificate, Certificates
    from .chosen_cluster import Cluster, cluster
    from .error import JavaMissingError, KafkaStartError
    from .fake_brokers import FakeBrokers
    from .fake_kafka import FakeKafka
    from .hdfs import LocalHdfs
    from .hold import Hold
    from .local import LocalKafka
    from .oidc import LocalOidc
    from .proxy import LocalProxy
    from .request import ApiKey, Request
    from .s3 import LocalS3, S3Request
    from .security import Security
    from .topic import Delivered, create_topic, delete_topic, produce
    from .wait import wait_until
    from .yarn import Container, LocalYarn

HOMES = {
    "ApiKey": "request",
    "Certificate": "certificates",
    "Certificates": "certificates",
    "Cluster": "chosen_cluster",
    "Container": "yarn",
    "Delivered": "topic",
    "FakeBrokers": "fake_brokers",
    "FakeKafka": "fake_kafka",
    "Hold": "hold",
    "JavaMissingError": "error",
    "KafkaStartError": "error",
    "LocalHdfs": "hdfs",
    "LocalKafka": "local",
    "LocalOidc": "oidc",
    "LocalProxy": "proxy",
    "LocalS3": "s3",
    "LocalYarn": "yarn",
    "Request": "request",
    "S3Request": "s3",
    "Security": "security",
    "cluster": "chosen_cluster",
    "create_topic": "topic",
    "delete_topic": "topic",
    "produce": "topic",
    "wait_until": "wait",
}

__all__ = [
    "ApiKey",
    "Certificate",
    "Certificates",
    "Cluster",
    "Container",
    "Delivered",
    "FakeBrokers",
    "FakeKafka",
    "Hold",
    "JavaMissingError",
    "KafkaStartError",
    "LocalHdfs",
    "LocalKafka",
    "LocalOidc",
    "LocalProxy",
    "LocalS3",
    "LocalYarn",
    "Request",
    "S3Request",
    "Security",
    "cluster",
    "create_topic",
    "delete_topic",
    "produce",
    "wait_until",
]


if not TYPE_CHECKING:  # with it a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
