"""Apache Kafka in containers of its official image; needs testcontainers and Docker."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import docker
from confluent_kafka import KafkaException
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from kafka_direct.errors import BrokerUnavailable

from .error import KafkaStartError
from .jar import KAFKA_VERSION
from .node import common_settings, free_ports, make_cluster_id
from .ready import wait_until_ready

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
TAIL_BYTES = 2000


class DockerKafka:
    """A cluster of `nodes` containers on a network of their own, each on a free port of this machine.

    Raises:
        KafkaStartError: no Docker endpoint answers, the image cannot be downloaded, or a node does not start.
    """

    def __init__(self, nodes: int = 1, *, image: str = IMAGE, timeout: float = 120.0) -> None:
        self._count = nodes
        self._image = image
        self._timeout = timeout
        self._cluster_id = make_cluster_id()
        self._ports: list[int] = []
        self._running = ExitStack()

    def __enter__(self) -> Self:
        _ping()
        with ExitStack() as running:
            self._ports = free_ports(self._count)  # chosen beforehand, because each node advertises its own
            try:
                network = running.enter_context(Network())
                nodes = [running.enter_context(self._node(n + 1, network)) for n in range(self._count)]
            except DockerException as error:
                raise KafkaStartError(f"Docker could not start {self._image}: {error}") from error
            self._wait(nodes)
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def __repr__(self) -> str:
        return f"<DockerKafka {self._image} {self.bootstrap_servers or 'not started'}>"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, for `bootstrap.servers`."""
        return ",".join(f"localhost:{port}" for port in self._ports)

    def _node(self, number: int, network: Network) -> DockerContainer:
        """Three listeners: containers cannot use each other's published ports, so the host has its own."""
        port = self._ports[number - 1]
        settings = {
            "node.id": number,
            "process.roles": "broker,controller",
            "listeners": "INTERNAL://:9092,CONTROLLER://:9093,HOST://:9094",
            "advertised.listeners": f"INTERNAL://kafka{number}:9092,HOST://localhost:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,HOST:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{n + 1}@kafka{n + 1}:9093" for n in range(self._count)),
            **common_settings(self._count),
        }
        container = DockerContainer(self._image).with_network(network).with_network_aliases(f"kafka{number}")
        container.with_bind_ports(9094, port).with_env("CLUSTER_ID", self._cluster_id)
        return container.with_envs(**{variable(k): str(v) for k, v in settings.items()})

    def _wait(self, nodes: Sequence[DockerContainer]) -> None:
        def check() -> None:
            for node in nodes:
                node.get_wrapped_container().reload()
                if node.get_wrapped_container().status == "exited":
                    raise KafkaStartError(f"A container of {self._image} has ended; its last output:\n{_tail(node)}")

        try:
            wait_until_ready(self.bootstrap_servers, self._cluster_id, self._count, alive=check, timeout=self._timeout)
        except (BrokerUnavailable, KafkaException) as error:
            tails = "\n".join(_tail(node) for node in nodes)
            raise KafkaStartError(f"{error} The last output of the containers:\n{tails}") from error


def variable(setting: str) -> str:
    """The environment variable in which the image takes a broker setting."""
    return "KAFKA_" + setting.upper().replace(".", "_")


def _ping() -> None:
    try:
        client = docker.from_env()
    except DockerException as error:
        raise KafkaStartError(
            f"KAFKA_DIRECT_BROKER=docker, but no Docker endpoint answers ({error}): start one, or leave it out."
        ) from error
    client.close()


def _tail(node: DockerContainer) -> str:
    output: bytes = b"".join(node.get_logs())
    return output[-TAIL_BYTES:].decode(errors="replace")
