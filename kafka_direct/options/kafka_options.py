"""`kafka.*` options of the data source: the client's parameters, and those that Spark's source refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError

from .client_params import ClientParams

if TYPE_CHECKING:
    from collections.abc import Mapping

_DESERIALIZER = (
    "keys and values come as bytes; decode them with DataFrame operations, or read them as STRING by a schema"
)
DEFAULT_GROUP_PREFIX = "spark-kafka-source"
# As in Spark.
REFUSED_OPTIONS = {
    "auto.offset.reset": "say where to start with the option startingOffsets",
    "enable.auto.commit": "progress is committed to kafka.group.id by itself",
    "interceptor.classes": "Java classes cannot run here",
    "key.deserializer": _DESERIALIZER,
    "value.deserializer": _DESERIALIZER,
    "key.serializer": "write BINARY or STRING columns",
    "value.serializer": "write BINARY or STRING columns",
}
# They load a library or run a command: who may write SQL may not do that.
NATIVE_KEYS = frozenset(
    {"plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.id", "ssl.engine.location", "ssl.providers"}
)


def parse_kafka_options(kafka: Mapping[str, str], *, group_prefix: str | None = None) -> ClientParams:
    """The client's parameters from `kafka.*` options, given without the prefix.

    Raises:
        ConfigError: an option is unknown or refused, or there are no brokers; the message names the option.
    """
    for key in kafka:
        if key in REFUSED_OPTIONS:
            raise ConfigError(f"option kafka.{key} is not supported: {REFUSED_OPTIONS[key]}; leave it out.")
        if key in NATIVE_KEYS:
            raise ConfigError(
                f"option kafka.{key} is not taken from options, because it loads native code or runs a command; give "
                "the key in kafkaParams of a stream or of KafkaSink, or leave it out."
            )
    if not kafka.get("bootstrap.servers", "").strip(", ") and "test.mock.num.brokers" not in kafka:
        raise ConfigError("option kafka.bootstrap.servers is missing; give the brokers as 'host:9092,host:9092'.")
    if group_prefix is not None and not group_prefix.strip():
        raise ConfigError("option groupIdPrefix is empty; give a name, or leave it out.")
    try:
        params = ClientParams.parse(kafka)
    except ConfigError as error:
        raise ConfigError(f"options kafka.* are the client's parameters: {error}") from None
    # As in Spark: a reader that may use only one group reads under the name of that group.
    reader_group = f"{group_prefix or DEFAULT_GROUP_PREFIX}-executor" if params.group_id is None else params.group_id
    return replace(params, reader_group=reader_group)
