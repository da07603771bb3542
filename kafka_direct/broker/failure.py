"""librdkafka's errors, translated into this package's."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from kafka_direct.errors import BrokerError, BrokerUnavailable, ConfigError, KafkaDirectError
from kafka_direct.options.callback import holding_errors
from kafka_direct.options.secret import masked

from .client_log import ClientLog
from .diagnosis import diagnose
from .token import TokenCallback

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any, TypeVar

    from confluent_kafka import Consumer

    from kafka_direct.options import ClientParams

    T = TypeVar("T")

# librdkafka's own messages. If the user has set no handler, Python prints warnings and errors to stderr.
librdkafka_logger = logging.getLogger("kafka_direct.librdkafka")
client_log = ClientLog()

# Errors that may pass within seconds: elections, restarts, metadata that has not reached all brokers.
PASSING = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001  librdkafka's own codes are underscored by name
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # also the answer of a broker that does not know a new topic yet
        KafkaError.UNKNOWN_TOPIC_ID,
    }
)
_KERBEROS = "install it from conda-forge or build it with libsasl2 (docs/security.md, Kerberos), or log in otherwise"
_REMEDIES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic, or correct its name",
    KafkaError.MSG_SIZE_TOO_LARGE: "raise the topic's max.message.bytes, or write smaller records",
}
# What Kafka's ACLs guard: the error that one is missing.
TOPIC, GROUP = KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED
TRANSACTIONAL_ID = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER = KafkaError.CLUSTER_AUTHORIZATION_FAILED
_OLD = " and, before Kafka 2.8, IDEMPOTENT_WRITE on the cluster"
_GUARDED = {TOPIC: "the topic", GROUP: "the group", TRANSACTIONAL_ID: "the transactional.id", CLUSTER: "the cluster"}


def right_on(operation: str, topics: Collection[str]) -> str:
    """A right as errors name it.

    >>> right_on("READ", ["orders"])
    'READ on topic orders'
    >>> right_on("READ", ["d", "c", "b", "a"])
    'READ on topics a, b, c and 1 more'
    """
    more = f" and {len(topics) - 3} more" if len(topics) > 3 else ""
    return f"{operation} on topic{'s' if len(topics) > 1 else ''} {', '.join(sorted(topics)[:3])}{more}"


def servers_of(params: ClientParams) -> str:
    """The brokers' addresses, for messages."""
    return str(dict(params.entries).get("bootstrap.servers", "a mock cluster"))


def is_passing(error: KafkaError) -> bool:
    return bool(error.retriable()) or error.code() in PASSING


def build_client(kind: Callable[..., T], config: Mapping[str, Any], **extra: Any) -> T:
    """A librdkafka client, or a ConfigError that says which parameter is wrong. No log of it shows a secret."""
    whole = {"logger": librdkafka_logger, **config, **extra}
    whole["logger"].addFilter(client_log)
    token = TokenCallback(whole["oauth_cb"]) if "oauth_cb" in whole else None
    try:
        return kind(whole if token is None else whole | {"oauth_cb": token})
    except (KafkaException, TypeError, ValueError) as cause:
        reason = masked(cause.args[0].str() if isinstance(cause, KafkaException) else str(cause))
        if token is not None and token.failure:
            raise ConfigError(f"oauth_cb gave no token: {masked(token.failure)}.") from None
        if "GSSAPI" in reason:
            raise ConfigError(f"confluent-kafka's wheels have no Kerberos: {_KERBEROS}.") from None
        raise ConfigError(
            f"kafkaParams are not accepted by librdkafka: {reason.rstrip('.')}; correct that key."
        ) from None  # librdkafka's own text may show what a reference refers to


def close_client(client: Consumer) -> None:
    """Close a consumer, even if one of its callbacks raises."""
    with holding_errors():
        client.close()


def translate(
    error: KafkaError, asking: str, params: ClientParams, complaint: str = "", *, rights: Mapping[int, str] = {}
) -> KafkaDirectError:
    """This package's error for an error while `asking`; `complaint` is what the client said last.

    `rights` is what was needed, by the error that it is missing: {TOPIC: "READ on topic orders"}. If there was no
    answer, the brokers' ports are looked at, which takes seconds.
    """
    servers = servers_of(params)
    if is_passing(error) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        return unreachable(error.str(), asking, params, complaint)
    remedy = _REMEDIES.get(error.code())
    if error.code() in _GUARDED:
        remedy = f"grant this user {rights.get(error.code(), _GUARDED[error.code()])} (kafka-acls)"
    why = f" ({masked(complaint)})" if complaint else ""
    return BrokerError(
        f"Kafka at {servers} refused while {asking}: {error.str().rstrip('.')}{why}{f'; {remedy}' if remedy else ''}.",
        code=error.name(),
    )


def unreachable(reason: str, asking: str, params: ClientParams, complaint: str = "") -> BrokerUnavailable:
    """The error for no answer, with what the brokers' ports and the client's log tell about its cause."""
    servers = servers_of(params)
    said = complaint or client_log.complaint(servers)
    found = diagnose(params, said)
    if found is None:
        why = f" ({masked(said)})" if said else ""
        sentence = f"{reason}{why}; check bootstrap.servers, the network and the security settings"
    else:
        sentence = found.sentence
    return BrokerUnavailable(f"no answer from Kafka at {servers} while {asking}: {sentence}.", servers=servers)


def translate_write(
    error: KafkaError, topic: str, params: ClientParams, *, rights: Mapping[int, str] = {}
) -> KafkaDirectError:
    """The same for a record to a topic, whether it was refused at once or after it was sent."""
    if error.code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001
        return ConfigError(f"a record names a partition that topic {topic} does not have; correct it.")
    rights = {CLUSTER: f"WRITE on topic {topic}{_OLD}", **rights, TOPIC: f"WRITE on topic {topic}"}
    return translate(error, f"writing to topic {topic}", params, rights=rights)
