"""`ClientParams`: the caller's kafkaParams, checked and translated once, and the configurations made from them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kafka_direct.checkpointed import persisted
from kafka_direct.errors import ArgumentTypeError, ConfigError
from kafka_direct.offsets.model.position import Position
from kafka_direct.offsets.text.position_grammar import parse_single
from kafka_direct.parse import BOOLEANS, parse_boolean, parse_whole

from . import secret
from .callback import Callback, check_callback_text
from .client_config import FilesState, build_config, state_of_files
from .java import login, tls
from .java.key import translate_java_keys
from .librdkafka_keys import (
    CALLBACK_KEYS,
    CONSUMER_CALLBACK_KEYS,
    CONSUMER_KEYS,
    LIBRDKAFKA_KEYS,
    PRODUCER_CALLBACK_KEYS,
    PRODUCER_KEYS,
)
from .unknown_key import refuse_unknown_keys

Value: TypeAlias = str | int | float | bool | Callable[..., Any]
Reset: TypeAlias = Position | Literal["error"]

# Keys with one possible value, and why.
OWNED = {
    "enable.auto.commit": (False, "kafka_direct commits after the output; call stream.commitAsync"),
    "auto.commit.enable": (False, "kafka_direct commits after the output; call stream.commitAsync"),
    "enable.auto.offset.store": (False, "offsets are kept in the offset log"),
    "enable.partition.eof": (True, "it marks the end of a range"),
}
# The values that librdkafka allows for an idempotent producer.
_MAY_BE_IDEMPOTENT: dict[str, Callable[[str], bool]] = {
    "acks": lambda value: value in ("all", "-1"),
    "request.required.acks": lambda value: value in ("all", "-1"),
    "max.in.flight": lambda value: value in ("1", "2", "3", "4", "5"),
    "max.in.flight.requests.per.connection": lambda value: value in ("1", "2", "3", "4", "5"),
    "message.send.max.retries": lambda value: value != "0",
    "retries": lambda value: value != "0",
    "queuing.strategy": lambda value: value == "fifo",
}
RESETS = {"beginning": "earliest", "smallest": "earliest", "earliest": "earliest"}
RESETS |= {"end": "latest", "largest": "latest", "latest": "latest", "error": "error", "none": "error"}
_PROTOCOL = re.compile(r"(?:(?<=^)|(?<=,))\s*[A-Za-z_]+://")
_BOOLEANS = BOOLEANS | {"t": True, "1": True, "f": False, "0": False}  # librdkafka's
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")

_CALLABLES = frozenset(CALLBACK_KEYS + CONSUMER_CALLBACK_KEYS + PRODUCER_CALLBACK_KEYS) - {"logger"}
# Java's keys that stay until a client is built, because they refer to what is elsewhere.
_KNOWN = (*LIBRDKAFKA_KEYS, *login.LATE_KEYS, *tls.LATE_KEYS)
_LITERAL = (login.ENDPOINT,)  # in Java a file: is a place there
_CONSUMERS_ONLY = frozenset(CONSUMER_KEYS + CONSUMER_CALLBACK_KEYS)
_PRODUCERS_ONLY = frozenset(PRODUCER_KEYS + PRODUCER_CALLBACK_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientParams:
    """The parameters of the Kafka clients; equal by value, and without a secret in its text.

    >>> ClientParams.parse({"bootstrap.servers": "broker:9092", "sasl.password": "hunter2"})
    ClientParams({'bootstrap.servers': 'broker:9092', 'sasl.password': '***'}, isolation_level=read_uncommitted)
    """

    entries: tuple[tuple[str, Value], ...]  # sorted by key; references unresolved
    group_id: str | None
    isolation_level: str
    auto_offset_reset: Reset | None  # "error": refuse where there is no offset; None: not given
    reader_group: str | None = None  # the group's name that readers show; None: one made from group_id

    @classmethod
    def parse(cls, kafka_params: Mapping[str, Any]) -> ClientParams:
        """Check and translate the caller's parameters; the mapping itself is left as it is.

        Raises:
            ArgumentTypeError: not a dict, or a key or value of a wrong type.
            ConfigError: an unknown key, or a value that this package cannot honour; the message names the remedy.
        """
        given = _checked_types(kafka_params)
        given = translate_java_keys(given)
        refuse_unknown_keys(given, _KNOWN)
        _check_callables(given)
        _check_references(given)
        _move_servers(given)
        _drop_owned(given)
        reset = given.pop("auto.offset.reset", None)
        return cls(
            group_id=_group_id(given.pop("group.id", None)),
            isolation_level=_isolation_level(given.pop("isolation.level", ISOLATION_LEVELS[0])),
            auto_offset_reset=None if reset is None else _reset(reset),
            entries=tuple(
                (key, Callback.of(value, is_asked=key == "oauth_cb") if callable(value) else value)
                for key, value in sorted(given.items())
            ),
        )

    @classmethod
    def revived(cls, _version: int, state: dict[str, Any]) -> ClientParams:
        reset = state["auto_offset_reset"]
        return cls(**state | {"auto_offset_reset": reset if reset in (None, "error") else parse_single(reset)})

    def __reduce__(self) -> tuple[Any, ...]:
        reset = self.auto_offset_reset
        return persisted(
            self,
            "client-params",
            {
                "entries": self.entries,
                "group_id": self.group_id,
                "isolation_level": self.isolation_level,
                "auto_offset_reset": None if reset is None else str(reset),
                "reader_group": self.reader_group,
            },
        )

    def __repr__(self) -> str:
        kept = {k: secret.shown(k, v.function if isinstance(v, Callback) else v) for k, v in self.entries}
        facts = {"group_id": self.group_id, "auto_offset_reset": self.auto_offset_reset}
        known = "".join(f", {name}={fact}" for name, fact in facts.items() if fact is not None)
        return f"ClientParams({kept}{known}, isolation_level={self.isolation_level})"

    def resolved(self) -> dict[str, Value]:
        """Give librdkafka's keys and their values in this process, with references, stores and names of callbacks read.

        Raises:
            ConfigError: one of these is not there.
        """
        return build_config(self.entries)

    def state_of_files(self) -> FilesState:
        """Equal as long as the certificates, keys and passwords in files are those that a client was built with."""
        return state_of_files(self.entries)

    def literal_secrets(self) -> tuple[str, ...]:
        """Name the keys whose value is a secret itself, not a reference: it would be pickled."""
        cloud = str(dict(self.entries).get("oauth_cb")).startswith(login.PACKAGE)  # its config names places only
        return tuple(
            key
            for key, value in self.entries
            if secret.is_secret(key)
            and not secret.is_reference(value)
            and not (cloud and key == "sasl.oauthbearer.config")
        )

    def for_admin(self) -> dict[str, Value]:
        """Give the configuration of an admin client, without keys that only consumers or producers know."""
        return _without(self.resolved(), _CONSUMERS_ONLY | _PRODUCERS_ONLY)

    def for_executor(self, preferred: Mapping[str, Value] = {}) -> dict[str, Value]:
        """Give the configuration of a consumer that reads ranges: it never commits and never resets its position.

        The caller's keys win over the `preferred` ones.
        """
        chosen = {"check.crcs": "true", "fetch.wait.max.ms": 10, **preferred}
        fixed: dict[str, Value] = {
            "group.id": self.reader_group
            or f"spark-executor-{'kafka-direct' if self.group_id is None else self.group_id}",
            "enable.partition.eof": "true",
        }
        return chosen | self._consumer() | fixed

    def for_group(self) -> dict[str, Value]:
        """Give the configuration of the consumer that reads and commits the group's offsets.

        Raises:
            ConfigError: there is no group.id.
        """
        if self.group_id is None:
            raise ConfigError("Committing needs a consumer group; set group.id in kafkaParams.")
        return self._consumer() | {"group.id": self.group_id}

    def for_producer(self) -> dict[str, Value]:
        """Give the configuration of a producer: idempotent unless the caller's own keys exclude that, as in Java.

        Raises:
            ConfigError: there is a transactional.id, which only one producer can have at a time, or an on_delivery.
        """
        given = _without(self.resolved(), _CONSUMERS_ONLY)
        if "transactional.id" in given:
            raise ConfigError(
                "transactional.id is chosen here, as each task has a producer of its own; leave the key out."
            )
        if "on_delivery" in given:
            raise ConfigError("on_delivery is set here, to see which records cannot be written; leave the key out.")
        # Java's partitioner, so that a key's records stay in the partition where JVM producers put them.
        chosen: dict[str, Value] = {"partitioner": "murmur2_random"}
        if all(allows(str(given[key]).lower()) for key, allows in _MAY_BE_IDEMPOTENT.items() if key in given):
            chosen["enable.idempotence"] = "true"
        return chosen | given

    def for_transactions(self, transactional_id: str) -> dict[str, Value]:
        """Give the configuration of the one producer that writes under an id.

        Raises:
            ConfigError: idempotence is off, without which Kafka has no transactions, or their timeout is no number.
        """
        given = self.for_producer()
        if not parse_boolean("enable.idempotence", str(given.get("enable.idempotence", "false")), _BOOLEANS):
            raise ConfigError(
                "a transaction needs an idempotent producer, which acks, retries, max.in.flight or enable.idempotence "
                "in kafkaParams exclude; leave these keys out."
            )
        parse_whole("transaction.timeout.ms", str(given.get("transaction.timeout.ms", 60_000)), least=1)
        return given | {"transactional.id": transactional_id}

    def _consumer(self) -> dict[str, Value]:
        # With a static member's id the coordinator would look for a member that never joined.
        kept = _without(self.resolved(), _PRODUCERS_ONLY | {"group.instance.id"})
        return kept | {
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "auto.offset.reset": "error",
            "isolation.level": self.isolation_level,
        }


def refuse_literal_secrets(params: ClientParams) -> None:
    """Refuse parameters that would write a secret into a checkpoint.

    >>> refuse_literal_secrets(ClientParams.parse({"bootstrap.servers": "b:9092", "sasl.password": "env:PASSWORD"}))

    Raises:
        ConfigError: names the keys, and shows the form that keeps secrets out.
    """
    keys = params.literal_secrets()
    if len(keys) > 0:
        raise ConfigError(
            f"{', '.join(keys)} would be written into the checkpoint; give a reference, which is resolved where it "
            f'is used: "{keys[0]}": "env:NAME" or "{keys[0]}": "file:/path"; in sasl.jaas.config: password="env:NAME".'
        )


def _checked_types(kafka_params: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(kafka_params, Mapping):
        raise ArgumentTypeError(
            f"kafkaParams must be a dict of librdkafka keys, as in {{'bootstrap.servers': 'host:9092'}}; it is a "
            f"{type(kafka_params).__name__}."
        )
    for key, value in kafka_params.items():
        if not isinstance(key, str):
            raise ArgumentTypeError(f"The keys of kafkaParams are text; {key!r} is not.")
        if key == "logger" or callable(value) or isinstance(value, (str, int, float)):
            continue
        raise ArgumentTypeError(
            f"kafkaParams[{key!r}] must be text, a number, true or false, or a callable; it is "
            f"{'None, so leave the key out' if value is None else 'a ' + type(value).__name__}."
        )
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in kafka_params.items()}


def _check_callables(given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if key == "logger":
            if not isinstance(value, logging.Logger):
                raise ArgumentTypeError("kafkaParams['logger'] must be a logging.Logger.")
        elif key == "oauth_cb" and isinstance(value, str):
            check_callback_text(key, value)
        elif callable(value) != (key in _CALLABLES):
            wanted = "a callable" if key in _CALLABLES else "text, a number, true or false"
            raise ArgumentTypeError(f"kafkaParams[{key!r}] must be {wanted}.")


def _check_references(given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if secret.is_reference(value) and key not in _LITERAL:
            secret.check_client_reference(key, value)


def _move_servers(given: dict[str, Any]) -> None:
    old = given.pop("metadata.broker.list", None)
    servers = given.setdefault("bootstrap.servers", old) if old is not None else given.get("bootstrap.servers")
    if old not in (None, servers):
        raise ConfigError("metadata.broker.list and bootstrap.servers are one setting; give bootstrap.servers alone.")
    if "test.mock.num.brokers" in given and servers is None:
        return
    if not isinstance(servers, str) or not servers.strip(", "):
        raise ConfigError("kafkaParams needs bootstrap.servers; give the brokers as 'host:9092,host:9092'.")
    # Java ignores a protocol before an address, and librdkafka takes none that is not security.protocol's.
    given["bootstrap.servers"] = _PROTOCOL.sub("", servers)
    for server in filter(None, map(str.strip, given["bootstrap.servers"].split(","))):
        _check_server(server)


def _check_server(server: str) -> None:
    """Refuse a port that is no number: librdkafka takes it for port 0, and then finds nobody there."""
    host, colon, port = server.rpartition(":")
    is_address = colon and not host.endswith("]") and ":" in host and not host.startswith("[")  # IPv6 without a port
    if colon and not is_address and not port.endswith("]") and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"bootstrap.servers has {server!r}, whose port is no number from 1 to 65535; correct it.")


def _drop_owned(given: dict[str, Any]) -> None:
    for key, (value, reason) in OWNED.items():
        if key in given and parse_boolean(key, str(given.pop(key)), _BOOLEANS) is not value:
            raise ConfigError(f"{key} is always {str(value).lower()} here: {reason}. Leave the key out.")


def _group_id(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise ConfigError(f"group.id is {value!r}; give the name of the consumer group, or leave the key out.")


def _isolation_level(value: object) -> str:
    level = str(value).lower()
    if level not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation.level is {value!r}; it is read_uncommitted or read_committed.")
    return level


def _reset(value: object) -> Reset:
    word = RESETS.get(str(value).lower())
    if word is None:
        raise ConfigError(f"auto.offset.reset is {value!r}; it is one of {', '.join(RESETS)}.")
    return "error" if word == "error" else parse_single(word)


def _without(given: dict[str, Value], keys: frozenset[str]) -> dict[str, Value]:
    return {key: value for key, value in given.items() if key not in keys}
