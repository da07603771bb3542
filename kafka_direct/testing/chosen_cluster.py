"""Chooses the Kafka for tests, demo and benchmarks."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from .error import KafkaStartError
from .local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class Cluster(Protocol):
    """A running Kafka, wherever it runs."""

    @property
    def bootstrap_servers(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ExternalKafka:
    """A cluster that is neither started nor stopped here."""

    bootstrap_servers: str


@contextmanager
def cluster(nodes: int = 1) -> Iterator[Cluster]:
    """Give a Kafka of `nodes` nodes: the one of KAFKA_BOOTSTRAP_SERVERS, whatever its size, else a new one.

    A new one runs in processes of this machine (`LocalKafka`), or in containers with KAFKA_DIRECT_BROKER=docker.

    Raises:
        KafkaStartError: the chosen one cannot be started; no other is used instead.
    """
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        yield ExternalKafka(given)
        return
    match os.environ.get("KAFKA_DIRECT_BROKER") or "local":
        case "local":
            with LocalKafka(nodes) as local:
                yield local
        case "docker":
            with _docker(nodes) as containers:
                yield containers
        case other:
            raise KafkaStartError(f"KAFKA_DIRECT_BROKER is {other!r}: leave it out, or set `local` or `docker`.")


def _docker(nodes: int) -> AbstractContextManager[Cluster]:
    try:
        # Imported here, because testcontainers comes only with the extra `docker`.
        container = import_module("kafka_direct.testing.container")
    except ModuleNotFoundError as error:
        raise KafkaStartError(
            f"KAFKA_DIRECT_BROKER=docker needs {error.name}: install `kafka-direct[docker]`."
        ) from error
    return cast("AbstractContextManager[Cluster]", container.DockerKafka(nodes))
