"""Keys that only the Java client knows: translated if an exact translation exists, else refused with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError
from kafka_direct.parse import parse_boolean

from .login import translate_login
from .move import move
from .tls import translate_keys, translate_trust

if TYPE_CHECKING:
    from collections.abc import Mapping

RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}

_TIMEOUT = "librdkafka's timeout for one request is socket.timeout.ms, which counts otherwise; set that"
_TLS_PROVIDER = "TLS is OpenSSL's here; leave the key out, or choose with ssl.cipher.suites"
_LOGIN_CLASS = "Java classes cannot run here; give sasl.username and sasl.password, sasl.oauthbearer.*, or an oauth_cb"
_METRICS = "Java classes cannot run here; librdkafka reports through statistics.interval.ms and stats_cb"
_SERIALIZER = "Java classes cannot run here, and keys and values are bytes or text already; leave the key out"
_PARTITIONER = "Java classes cannot run here; set partitioner, which is murmur2_random, Java's own, unless given"

REFUSED = {
    "auto.include.jmx.reporter": _METRICS,
    "buffer.memory": "librdkafka's queue is limited by queue.buffering.max.kbytes; set that, in KiB",
    "default.api.timeout.ms": _TIMEOUT,
    "interceptor.classes": "Java classes cannot run here; do that work in the messageHandler",
    "key.serializer": _SERIALIZER,
    "value.serializer": _SERIALIZER,
    "max.block.ms": "a full queue is waited for; limit a record's way to the broker with delivery.timeout.ms",
    "max.poll.records": "ranges decide how much is read; limit a batch with maxRatePerPartition",
    "max.request.size": "librdkafka limits a record and its batch with message.max.bytes; set that",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "partitioner.adaptive.partitioning.enable": _PARTITIONER,
    "partitioner.availability.timeout.ms": _PARTITIONER,
    "partitioner.class": _PARTITIONER,
    "partitioner.ignore.keys": _PARTITIONER,
    "request.timeout.ms": _TIMEOUT,
    "sasl.login.class": _LOGIN_CLASS,
    "sasl.oauthbearer.jwks.endpoint.url": "brokers check tokens, clients do not; leave the key out",
    "security.providers": _TLS_PROVIDER,
    "ssl.enabled.protocols": _TLS_PROVIDER,
    "ssl.engine.factory.class": _TLS_PROVIDER,
    "ssl.keymanager.algorithm": _TLS_PROVIDER,
    "ssl.protocol": _TLS_PROVIDER,
    "ssl.provider": _TLS_PROVIDER,
    "ssl.secure.random.implementation": _TLS_PROVIDER,
    "ssl.trustmanager.algorithm": _TLS_PROVIDER,
    "throw.on.fetch.stable.offset.unsupported": "brokers that old are not supported; leave the key out",
}


def translate_java_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    """Give the parameters with Java's keys replaced by librdkafka's.

    >>> translate_java_keys({"fetch.max.wait.ms": 100, "ssl.endpoint.identification.algorithm": ""})
    {'ssl.endpoint.identification.algorithm': 'none', 'fetch.wait.max.ms': 100}

    Raises:
        ConfigError: a key that has no exact counterpart; the message names what to use instead.
    """
    params = dict(given)
    for key in sorted(params.keys() & REFUSED.keys()):
        raise ConfigError(f"{key} is a key of the Java client; {REFUSED[key]}.")
    for side in ("key", "value"):
        _drop_deserializer(params, side)
    translate_login(params)
    translate_trust(params)
    translate_keys(params)
    for java, librdkafka in RENAMED.items():
        if java in params:
            move(params, java, librdkafka, _buffer_size(java, params.pop(java)))
    _translate_values(params)
    return params


def _drop_deserializer(params: dict[str, Any], side: str) -> None:
    name = str(params.pop(f"{side}.deserializer", "StringDeserializer")).rpartition(".")[2]
    if name == "ByteArrayDeserializer":
        raise ConfigError(f"{side}.deserializer {name} is spelled {side}Decoder=None here; pass that argument.")
    if name != "StringDeserializer":  # which does what utf8_decoder, the default, does
        raise ConfigError(f"{side}.deserializer {name!r} cannot run here; pass a Python function as {side}Decoder.")


def _buffer_size(key: str, value: object) -> object:
    # The operating system's default is -1 in Java, and 0 in librdkafka.
    return 0 if key.endswith("buffer.bytes") and str(value) == "-1" else value


def _translate_values(params: dict[str, Any]) -> None:
    verification = "ssl.endpoint.identification.algorithm"
    if verification in params and not str(params[verification]).strip():
        params[verification] = "none"
    assignors = "partition.assignment.strategy"
    if assignors in params:
        names = [name.strip() for name in str(params[assignors]).split(",")]
        unknown = [name for name in names if "." in name and name not in ASSIGNORS]
        if unknown:
            raise ConfigError(f"{assignors} names {unknown[0]!r}, which cannot run here; leave the key out.")
        params[assignors] = ",".join(ASSIGNORS.get(name, name) for name in names)
    if not parse_boolean("exclude.internal.topics", str(params.pop("exclude.internal.topics", "true"))):
        raise ConfigError("exclude.internal.topics is always true here; name internal topics one by one in topics.")
