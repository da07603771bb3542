"""A real Apache Kafka on this machine, without Docker: a process per node."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AclPermissionType, AdminClient  # type: ignore[attr-defined]  # it does not declare it

from kafka_direct.errors import BrokerUnavailable

from .acl import Acl
from .error import KafkaStartError
from .jar import KAFKA_VERSION, kafka_jars
from .java import find_java
from .node import Node, make_cluster_id, plan_nodes, server_properties
from .process import ProcessGroup
from .ready import is_in_sync, wait_until_ready
from .secured import Secured
from .security import LISTENERS
from .topic import client_settings, metadata
from .wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from .acl import Pattern, Resource
    from .certificates import Certificate, Certificates
    from .login import How, Store
    from .proxy import LocalProxy
    from .security import Security

# With the first compiler only, a node starts in three quarters of the time and leaves the cores to Spark.
JAVA_OPTIONS = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",  # prints every setting, several times
)
ATTEMPTS = 3
PORT_TAKEN = "Address already in use"
TAIL_LINES = 15


class LocalKafka:
    """A cluster of `nodes` combined brokers and controllers, numbered from 1; a context manager.

    It ends with this process, however that ends, and leaves nothing behind but the jars in the user's cache.
    `settings` are broker settings, for every node. `timeout` is for each wait: the start, a leader, a returning node.
    With a `proxy` clients are sent through it; it must be started, and end later.
    With `security` there are more ports, on which clients log in: `login` has what they must be told. The port of
    `bootstrap_servers` stays plain.

    Raises:
        KafkaStartError: no Java, no jars, or a node does not start; the text has the last lines of its log.
    """

    def __init__(  # noqa: PLR0913
        self,
        nodes: int = 1,
        *,
        version: str = KAFKA_VERSION,
        settings: Mapping[str, str] | None = None,
        proxy: LocalProxy | None = None,
        security: Security | None = None,
        java_options: Sequence[str] = JAVA_OPTIONS,
        timeout: float = 60.0,
    ) -> None:
        if proxy is not None and security is not None:
            raise KafkaStartError(
                "A LocalProxy reads what passes, so it cannot stand before secured ports: use one of them."
            )
        self._count = nodes
        self._version = version
        self._settings = dict(settings or {})
        self._proxy = proxy
        self._security = security
        self._secured: Secured | None = None
        self._java_options = java_options
        self._timeout = timeout
        self._command: list[str] = []
        self._nodes: dict[int, Node] = {}
        self._ports = ExitStack()  # of nodes that are killed
        self._frozen: set[int] = set()
        self._processes: ProcessGroup | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        where = ",".join(node.address for node in self._nodes.values()) or "not started"
        return f"<LocalKafka {self._version} {where}>"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, for `bootstrap.servers`."""
        self._started()
        return ",".join(node.address for node in self._nodes.values())

    @property
    def direct_servers(self) -> str:
        """The addresses of all nodes beside the proxy; without a proxy the same as `bootstrap_servers`."""
        self._started()
        return ",".join(node.direct_address for node in self._nodes.values())

    @property
    def certificates(self) -> Certificates:
        """The authority, and the certificates of the nodes and of the users."""
        return self._security_side().certificates

    def login(self, how: How, user: str = "alice", *, tls: bool = True) -> dict[str, str]:
        """Return librdkafka's parameters for a login, with the addresses; `tls=False` takes the plain port of SASL."""
        return self._security_side().logins().librdkafka(how, user, tls=tls)

    def java_login(self, how: How, user: str = "alice", *, tls: bool = True, store: Store = "PKCS12") -> dict[str, str]:
        """Return the Java client's parameters for the same, with certificates in a `store` of that type."""
        return self._security_side().logins().java(how, user, tls=tls, store=store)

    def allow(self, user: str, operation: str, resource: Resource, name: str, *, pattern: Pattern = "literal") -> None:
        """Let a user do something, `allow("alice", "READ", "topic", "orders")`; it holds when this returns."""
        acl = Acl(user=user, operation=operation, resource=resource, name=name, pattern=pattern)
        self._security_side().create(acl, AclPermissionType.ALLOW)

    def deny(self, user: str, operation: str, resource: Resource, name: str, *, pattern: Pattern = "literal") -> None:
        """Forbid it, whatever allows it; it holds when this returns."""
        acl = Acl(user=user, operation=operation, resource=resource, name=name, pattern=pattern)
        self._security_side().create(acl, AclPermissionType.DENY)

    def revoke(self, user: str, operation: str, resource: Resource, name: str, *, pattern: Pattern = "literal") -> None:
        """Take back what `allow` or `deny` said with the same words; it holds when this returns."""
        acl = Acl(user=user, operation=operation, resource=resource, name=name, pattern=pattern)
        self._security_side().delete(acl)

    def replace_certificate(self, certificate: Certificate) -> None:
        """Let all nodes show another certificate, also a bad one; connections that are there stay."""
        self._security_side().replace_certificate(certificate)

    def start(self) -> Self:
        """Start every node and return once records can be produced; without effect on a cluster that is started."""
        if self._processes is not None:
            return self
        java = find_java()
        jars = kafka_jars(self._version)
        more = () if self._security is None else self._security.java_options()
        self._command = [java, *self._java_options, *more, *LOGGING, "-cp", str(jars / "*")]
        for _ in range(ATTEMPTS - 1):
            with suppress(_PortTakenError):
                return self._start_once()
        return self._start_once()

    def stop(self) -> None:
        """End every node and remove its data; without effect on a cluster that is not started."""
        if self._processes is not None:
            self._processes.close()
            self._processes = None
            self._nodes = {}
            self._ports.close()
            self._frozen.clear()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the number of the node that leads a partition now, waiting until one does."""
        client = AdminClient(client_settings(self.direct_servers))
        leaders: list[int] = []

        def is_led() -> bool:
            cluster = metadata(client)
            if cluster is not None and topic in cluster.topics:
                leaders.append(cluster.topics[topic].partitions[partition].leader)
            return leaders[-1:] != [] and leaders[-1] in self._nodes

        wait_until(is_led, f"a leader of partition {partition} of topic {topic}", timeout=self._timeout)
        return leaders[-1]

    def kill(self, node: int) -> None:
        """End a node with SIGKILL; it is gone when this returns, and its data stays."""
        self._signal(node, signal.SIGKILL)
        self._frozen.discard(node)

    def shut_down(self, node: int) -> None:
        """End a node as an operator does: it hands over what it leads; it is gone when this returns."""
        name = self._nodes[node].name
        self._signal(node, signal.SIGTERM)
        wait_until(lambda: not self._started().is_running(name), f"the end of {name}", timeout=self._timeout)

    def start_node(self, node: int) -> None:
        """Start a node again that has ended, and return once it is back in every in-sync set it belongs to."""
        if self._started().is_running(self._nodes[node].name):
            raise KafkaStartError(f"Node {node} runs already: kill it before starting it again.")
        self._launch(self._nodes[node])
        self._wait_for_return(self._nodes[node])

    def freeze(self, node: int) -> None:
        """Pause a node's process: it keeps its connections and answers nothing."""
        self._signal(node, signal.SIGSTOP)
        self._frozen.add(node)

    def thaw(self, node: int) -> None:
        """Let a frozen node go on, and return once it is back in every in-sync set it belongs to."""
        self._signal(node, signal.SIGCONT)
        self._frozen.discard(node)
        self._wait_for_return(self._nodes[node])

    def _start_once(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._processes = ProcessGroup()
            listeners = () if self._security is None else tuple(LISTENERS)
            planned = plan_nodes(self._count, self._ports, listeners)
            self._nodes = {node.number: self._behind_proxy(node) for node in planned}
            nodes, cluster_id = self._nodes.values(), make_cluster_id()
            self._format(nodes, cluster_id)
            for node in nodes:
                self._launch(node)
            with self._explained(nodes):
                wait_until_ready(
                    self.direct_servers,
                    cluster_id,
                    self._count,
                    alive=lambda: self._check(nodes),
                    timeout=self._timeout,
                )
            undo.pop_all()
        return self

    def _behind_proxy(self, node: Node) -> Node:
        return node if self._proxy is None else replace(node, proxy_port=self._proxy.front(node.number, node.port))

    def _format(self, nodes: Collection[Node], cluster_id: str) -> None:
        """Prepare the data folders, as `kafka-storage.sh` does."""
        processes = self._started()
        settings: Mapping[str, str] = self._settings
        options: tuple[str, ...] = ()
        if self._security is not None:
            self._secured = Secured(self._security, nodes, processes.folder, self._timeout)
            settings, options = self._secured.settings() | self._settings, self._security.format_options()
        for node in nodes:
            properties = processes.folder / f"{node.name}.properties"
            properties.write_text(server_properties(node, nodes, processes.folder, settings))
            tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), *options]
            processes.start(f"{node.name}-format", [*self._command, *tool])
        for node in nodes:
            if processes.wait(f"{node.name}-format") != 0:
                raise KafkaStartError(f"The settings of {node.name} were refused:\n{self._tail(f'{node.name}-format')}")

    def _launch(self, node: Node) -> None:
        processes = self._started()
        properties = processes.folder / f"{node.name}.properties"
        processes.start(node.name, [*self._command, "kafka.Kafka", str(properties)])

    def _wait_for_return(self, node: Node) -> None:
        """Wait until it and all other nodes agree that it is back.

        The others keep a killed node until its session expires, and a thawed one begins with old metadata.
        """
        processes = self._started()
        awake = [n for n in self._nodes.values() if n.number not in self._frozen and processes.is_running(n.name)]
        clients = [AdminClient(client_settings(n.direct_address)) for n in awake]

        def is_back() -> bool:
            self._check([node])
            return all(is_in_sync(node.number, metadata(client)) for client in clients)

        with self._explained([node]):
            wait_until(is_back, f"{node.name} to be in sync again", timeout=self._timeout)

    def _check(self, nodes: Collection[Node]) -> None:
        """Raise if one of the nodes has ended."""
        for node in nodes:
            if not self._started().is_running(node.name):
                output = self._started().log(node.name).read_text(errors="replace")
                error = _PortTakenError if PORT_TAKEN in output else KafkaStartError
                raise error(f"{node.name} has ended; its last output:\n{self._tail(node.name)}")

    @contextmanager
    def _explained(self, nodes: Collection[Node]) -> Iterator[None]:
        """Add the nodes' last output to an error about them."""
        try:
            yield
        except (BrokerUnavailable, KafkaException) as error:
            tails = "\n".join(f"{node.name}: {self._tail(node.name)}" for node in nodes)
            raise KafkaStartError(f"{error} The last output of the nodes:\n{tails}") from error

    def _tail(self, name: str) -> str:
        lines = self._started().log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def _signal(self, node: int, number: signal.Signals) -> None:
        self._started().signal(self._nodes[node].name, number)

    def _security_side(self) -> Secured:
        if self._security is None:
            raise KafkaStartError("This cluster asks nobody who he is: start it with LocalKafka(security=Security()).")
        self._started()
        assert self._secured is not None
        return self._secured

    def _started(self) -> ProcessGroup:
        if self._processes is None:
            raise KafkaStartError("This cluster is not started: call start(), or use it in a `with` statement.")
        return self._processes


class _PortTakenError(KafkaStartError):
    """Another process took a port between its choice and its use."""
