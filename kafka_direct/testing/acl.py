"""An ACL, and whether a node decides by it.

Each broker and each controller has a copy of the ACLs, which follows the cluster's. A broker decides on what it does
itself, the controller on topics that are created or changed. So all of them are asked, one by one. A client library
does not say whom it asks: the question is written here.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Literal

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not declare
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kafka_direct.errors import ConfigError

Resource = Literal["topic", "group", "cluster", "transactional-id"]
Pattern = Literal["literal", "prefixed"]
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,  # librdkafka's name for it
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = [name for name in AclOperation.__members__ if name not in {"UNKNOWN", "ANY"}]
DESCRIBE_ACLS, VERSION = 29, 1  # a version whose form is simple; every Kafka since 2.0 has it
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """What `kafka-acls.sh` calls a principal, an operation, a resource and a pattern; for every host."""

    user: str
    operation: str
    resource: Resource
    name: str
    pattern: Pattern = "literal"

    def __post_init__(self) -> None:
        if self.operation.upper() not in OPERATIONS:
            raise ConfigError(f"There is no operation {self.operation!r}: use one of {', '.join(OPERATIONS)}.")
        if self.resource not in RESOURCES:
            raise ConfigError(f"There is no resource {self.resource!r}: use one of {', '.join(RESOURCES)}.")

    def binding(self, permission: AclPermissionType) -> AclBinding:
        return AclBinding(*self._parts(permission))

    def filter(self) -> AclBindingFilter:
        """What finds it, whether it allows or denies."""
        return AclBindingFilter(*self._parts(AclPermissionType.ANY))

    def question(self, permission: AclPermissionType) -> bytes:
        """The request DescribeAcls for it, as Kafka's protocol has it."""
        resource, name, pattern, principal, host, operation, wanted = self._parts(permission)
        body = struct.pack(">hhi", DESCRIBE_ACLS, VERSION, 0) + _text("kafka_direct.testing")
        body += struct.pack(">b", resource.value) + _text(name) + struct.pack(">b", pattern.value)
        body += _text(principal) + _text(host) + struct.pack(">bb", operation.value, wanted.value)
        return struct.pack(">i", len(body)) + body

    def _parts(
        self, permission: AclPermissionType
    ) -> tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation, AclPermissionType]:
        pattern, operation = ResourcePatternType[self.pattern.upper()], AclOperation[self.operation.upper()]
        return RESOURCES[self.resource], self.name, pattern, f"User:{self.user}", "*", operation, permission


def is_known_at(port: int, host: str, acl: Acl, permission: AclPermissionType) -> bool:
    """Whether the authorizer behind a plain port has it. `AclPermissionType.ANY` finds either."""
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(acl.question(permission))
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            return is_found(answers.read(size))


def is_found(answer: bytes) -> bool:
    """Whether the answer to DescribeAcls has an ACL.

    >>> is_found(struct.pack(">iihhi", 0, 0, 0, -1, 1))
    True

    Raises:
        ConfigError: the node has no authorizer, or refuses the question.
    """
    _, _, error, text = struct.unpack_from(">iihh", answer)
    if error:
        raise ConfigError(f"A node refuses to describe its ACLs, with Kafka's error code {error}.")
    (count,) = struct.unpack_from(">i", answer, 12 + max(text, 0))
    return bool(count)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded
