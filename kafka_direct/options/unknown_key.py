"""Keys that librdkafka does not know: which key was meant, or where the setting belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.loss import STREAM_SETTING
from kafka_direct.parse import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_UNKNOWN = "kafkaParams has the unknown key"
_SPARK_RATE = "give it as the keyword argument of that name, or set spark.streaming.kafka.{name} in SparkConf"
_SOURCE = "it is an option of the kafka_direct data source; {instead}"

# Keys in small letters, because users write Spark's options in many ways.
ELSEWHERE = {
    "failondataloss": f"set {STREAM_SETTING} in SparkConf",
    "maxrateperpartition": _SPARK_RATE.format(name="maxRatePerPartition"),
    "minrateperpartition": _SPARK_RATE.format(name="minRatePerPartition"),
    "backpressure": "set spark.streaming.backpressure.enabled in SparkConf",
    "initialrate": "set spark.streaming.backpressure.initialRate in SparkConf",
    "maxoffsetspertrigger": _SOURCE.format(instead="here limit with maxRatePerPartition"),
    "startingoffsets": _SOURCE.format(instead="here give fromOffsets"),
    "startingtimestamp": _SOURCE.format(instead="here give fromOffsets, as in '@2026-11-18T10:00:00Z'"),
    "endingoffsets": _SOURCE.format(instead="here give offsetRanges to createRDD"),
    "subscribe": _SOURCE.format(instead="here give topics"),
    "subscribepattern": _SOURCE.format(instead="here give a compiled pattern as topics"),
    "assign": _SOURCE.format(instead="here give a list of TopicPartition as topics"),
    "topics": "give topics as the argument of that name",
    "fromoffsets": "give fromOffsets as the argument of that name",
    "includeheaders": _SOURCE.format(instead="here take headers in the messageHandler"),
    "minpartitions": _SOURCE.format(instead="here each range is one partition; call rdd.repartition"),
    "groupidprefix": _SOURCE.format(instead="here set group.id"),
    "zookeeper.connect": "Kafka needs no ZooKeeper address; give bootstrap.servers",
    "default.topic.config": "give its keys beside the others",
}


def refuse_unknown_keys(keys: Iterable[str], known: Sequence[str]) -> None:
    """Refuse the first key that librdkafka does not know, with the nearest one it does.

    >>> refuse_unknown_keys(["fetch.min.byte"], ["fetch.max.bytes", "fetch.min.bytes"])
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: kafkaParams has the unknown key 'fetch.min.byte'; did you mean fetch.min.bytes?
    """
    for key in keys:
        if key not in known:
            if remedy := _remedy(key.lower()):
                raise ConfigError(f"{_UNKNOWN} {key!r}; {remedy}")
            raise unknown(_UNKNOWN, key, known, "its keys are those of librdkafka's CONFIGURATION.md.")


def _remedy(folded: str) -> str | None:
    if folded in ELSEWHERE:
        return f"{ELSEWHERE[folded]}."
    if folded.startswith("spark."):
        return "set it in SparkConf."
    if folded.startswith("kafka."):
        return f"the prefix belongs to data source options: write {folded.removeprefix('kafka.')!r}."
    return None
