"""`StreamSettings`: what a stream takes from SparkConf, read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.broker.fetch.reader import ReadSettings
from kafka_direct.offsets import LossPolicy
from kafka_direct.offsets.model.loss import STREAM_SETTING
from kafka_direct.parse import parse_boolean, unknown
from kafka_direct.rate import RateSettings
from kafka_direct.rate.settings import MAX_RATE_PER_PARTITION, MIN_RATE_PER_PARTITION

from . import jvm
from .rdd import POLL_MS, poll_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.streaming import StreamingContext

PREFIX = "spark.streaming.kafka."
FAIL_ON_DATA_LOSS = STREAM_SETTING
KNOWN = (FAIL_ON_DATA_LOSS, MAX_RATE_PER_PARTITION, MIN_RATE_PER_PARTITION, POLL_MS)
# Keys of Spark's JVM stream that have no effect here. Jobs that were written for it may set them.
NOT_NEEDED = ("consumer.cache.", "allowNonConsecutiveOffsets", "maxRetries")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    rate: RateSettings
    batch_interval_ms: int
    fail_on_data_loss: bool
    poll_seconds: float

    @property
    def reading(self) -> ReadSettings:
        losses = LossPolicy(fail_on_data_loss=self.fail_on_data_loss, setting=FAIL_ON_DATA_LOSS, reader="a worker")
        return ReadSettings(poll_seconds=self.poll_seconds, poll_setting=POLL_MS, losses=losses)

    @classmethod
    def of(cls, ssc: StreamingContext) -> StreamSettings:
        conf = dict(ssc.sparkContext._conf.getAll())
        _refuse_unknown(conf)
        return cls(
            rate=RateSettings.from_conf(conf),
            batch_interval_ms=jvm.batch_interval_ms(ssc),
            fail_on_data_loss=parse_boolean(FAIL_ON_DATA_LOSS, conf.get(FAIL_ON_DATA_LOSS, "true")),
            poll_seconds=poll_seconds(ssc.sparkContext),
        )


def _refuse_unknown(conf: Mapping[str, str]) -> None:
    for key in conf:
        if key.startswith(PREFIX) and key not in KNOWN and not key.removeprefix(PREFIX).startswith(NOT_NEEDED):
            raise unknown("SparkConf has the unknown key", key, KNOWN, f"its keys are {', '.join(KNOWN)}.")
