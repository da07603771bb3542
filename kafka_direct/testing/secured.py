"""The secured side of a `LocalKafka` that runs: its certificates, its logins and its ACLs."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not declare
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from .acl import Acl, is_known_at
from .certificates import Certificates
from .error import KafkaStartError
from .login import Logins
from .node import HOST
from .security import LISTENERS, TLS_LISTENERS, key_settings
from .topic import client_settings
from .wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from .certificates import Certificate
    from .node import Node
    from .security import Security

ANSWER_SECONDS = 30.0


class Secured:
    """What the nodes share. `timeout` is for each wait."""

    def __init__(self, security: Security, nodes: Collection[Node], folder: Path, timeout: float) -> None:
        self._security = security
        self._nodes = nodes
        self._timeout = timeout
        self.certificates = Certificates(folder / "certificates", security.users)

    def settings(self) -> dict[str, str]:
        return self._security.settings(self.certificates)

    def logins(self) -> Logins:
        servers = {
            listener: ",".join(f"{HOST}:{node.secured_ports[listener]}" for node in self._nodes)
            for listener in LISTENERS
        }
        return Logins(self._security, self.certificates, servers)

    def create(self, acl: Acl, permission: AclPermissionType) -> None:
        """Create an ACL, and return once every node decides by it."""
        self._check_acls()
        client = self._admin()  # kept until the answer: a client that is freed never answers
        for created in client.create_acls([acl.binding(permission)]).values():
            created.result(ANSWER_SECONDS)
        wait_until(
            lambda: all(is_known_at(*place, acl, permission) for place in self._places()),
            f"{acl} on every node",
            timeout=self._timeout,
        )

    def delete(self, acl: Acl) -> None:
        """Delete an ACL, whether it allows or denies, and return once no node decides by it."""
        self._check_acls()
        client = self._admin()  # kept until the answer: a client that is freed never answers
        for deleted in client.delete_acls([acl.filter()]).values():
            deleted.result(ANSWER_SECONDS)
        wait_until(
            lambda: not any(is_known_at(*place, acl, AclPermissionType.ANY) for place in self._places()),
            f"the end of {acl} on every node",
            timeout=self._timeout,
        )

    def replace_certificate(self, made: Certificate) -> None:
        """Let every node show another certificate to who connects from now on."""
        entries = [
            ConfigEntry(
                f"listener.name.{listener.lower()}.ssl.{key}", value, incremental_operation=AlterConfigOpType.SET
            )
            for listener in TLS_LISTENERS
            for key, value in key_settings(made).items()
        ]
        changes = [
            ConfigResource(ResourceType.BROKER, str(node.number), incremental_configs=entries) for node in self._nodes
        ]
        client = self._admin()  # kept until the answer: a client that is freed never answers
        for changed in client.incremental_alter_configs(changes).values():
            changed.result(ANSWER_SECONDS)
        wanted = ssl.PEM_cert_to_DER_cert(made.pem.read_text().partition("-----END")[0] + "-----END CERTIFICATE-----\n")
        ports = [node.secured_ports[listener] for node in self._nodes for listener in TLS_LISTENERS]
        wait_until(
            lambda: all(_shown_at(port) == wanted for port in ports),
            f"certificate {made.name} on every node",
            timeout=self._timeout,
        )

    def _check_acls(self) -> None:
        if not self._security.acls:
            raise KafkaStartError("This cluster has no ACLs: start it with Security(acls=True).")

    def _admin(self) -> AdminClient:
        return AdminClient(client_settings(",".join(node.direct_address for node in self._nodes)))

    def _places(self) -> list[tuple[int, str]]:
        """Where an authorizer answers: a broker and a controller in each node."""
        return [(port, HOST) for node in self._nodes for port in (node.port, node.controller_port)]


def _shown_at(port: int) -> bytes | None:
    """The certificate that a port shows now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it may be a bad one
    with (
        socket.create_connection((HOST, port), timeout=ANSWER_SECONDS) as connection,
        context.wrap_socket(connection) as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True)
