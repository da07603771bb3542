"""One node of a local cluster: its addresses and its `server.properties`."""

from __future__ import annotations

import socket
import sys
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from .security import LISTENERS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A combined broker and controller. `number` is its id in Kafka, counted from 1.

    `proxy_port` is where clients are sent instead of `port`; brokers, and who knows it, then use `direct_port`.
    `secured_ports` are those of more listeners, by name.
    """

    number: int
    port: int
    controller_port: int
    direct_port: int
    proxy_port: int | None = None
    secured_ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.proxy_port or self.port}"

    @property
    def direct_address(self) -> str:
        return f"{HOST}:{self.direct_port if self.proxy_port else self.port}"


def free_ports(count: int) -> list[int]:
    """Return ports that are free now. Another process may take them before a node binds them."""
    with ExitStack() as held:  # all at once, or the system may give the same one twice
        return hold_ports(count, held)


def hold_ports(count: int, held: ExitStack) -> list[int]:
    """Return free ports, which the system gives to no other process as long as they are `held`.

    On Linux a server can still bind one of them by its number, also after a restart.
    """
    sockets = [held.enter_context(socket.socket()) for _ in range(count)]
    for each in sockets:
        each.bind((HOST, 0))
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java's servers set it
    return [each.getsockname()[1] for each in sockets]


def make_cluster_id() -> str:
    """Return a new id in Kafka's form: 16 bytes in URL-safe base64; no command line takes it for an option."""
    return "k" + b64encode(uuid4().bytes, altchars=b"-_").decode().rstrip("=")[1:]


def plan_nodes(count: int, held: ExitStack, secured: Collection[str] = ()) -> list[Node]:
    """The nodes of a cluster. Their ports are held on Linux only, where the nodes can bind them all the same."""
    ports = iter(hold_ports((3 + len(secured)) * count, held))
    if sys.platform != "linux":
        held.close()
    return [
        Node(
            number=number,
            port=next(ports),
            controller_port=next(ports),
            direct_port=next(ports),
            secured_ports={listener: next(ports) for listener in secured},
        )
        for number in range(1, count + 1)
    ]


def server_properties(node: Node, nodes: Collection[Node], folder: Path, settings: Mapping[str, str]) -> str:
    """Return the text of a node's configuration; `settings` override the defaults."""
    secured = "".join(f",{name}://{HOST}:{port}" for name, port in node.secured_ports.items())
    protocols = "".join(f",{name}:{LISTENERS[name]}" for name in node.secured_ports)
    voters = ",".join(f"{n.number}@{HOST}:{n.controller_port}" for n in nodes)
    identity = {
        "node.id": node.number,
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}{secured}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}",
        "log.dirs": folder / node.name,
    }
    proxied = _proxied(node, identity["listeners"]) if node.proxy_port else {}
    chosen = {**identity, **proxied, **common_settings(len(nodes)), **settings}
    return "".join(f"{key}={value}\n" for key, value in chosen.items())


def _proxied(node: Node, listeners: object) -> dict[str, object]:
    """Clients are sent to the proxy; who asks at the direct port stays there, as the brokers do."""
    direct = f"DIRECT://{node.direct_address}"
    return {
        "listeners": f"{listeners},{direct}",
        "advertised.listeners": f"PLAINTEXT://{node.address},{direct}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT",
        "inter.broker.listener.name": "DIRECT",
    }


def common_settings(nodes: int) -> dict[str, object]:
    """The settings of every test cluster, wherever it runs."""
    return {**_replicated(nodes), **SMALL, **QUICK}


def _replicated(nodes: int) -> dict[str, int]:
    """With three nodes, internal topics survive the loss of one, as in production."""
    copies, in_sync = min(nodes, 3), min(nodes, 2)
    return {
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": nodes,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": nodes,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": nodes,
    }


SMALL = {
    "auto.create.topics.enable": "false",  # a misspelt topic must fail
    "log.cleaner.dedupe.buffer.size": 4 << 20,  # 128 MB of heap by default
    "num.io.threads": 4,
    "num.network.threads": 2,
    "background.threads": 2,
}

QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    # A killed node can return when its old session has expired. With much less, a busy machine loses healthy nodes.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    # Retention, compaction and expiry come soon, so that a test can wait for them. But records age only in topics that
    # set it, because test records are often dated 1970.
    "log.retention.ms": -1,
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 500,
    "log.cleaner.backoff.ms": 500,
    "log.segment.delete.delay.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
