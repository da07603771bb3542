"""`StreamSettings`: what a stream takes from SparkConf, read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.rate import RateSettings

from . import jvm
from .rdd import poll_seconds

if TYPE_CHECKING:
    from pyspark.streaming import StreamingContext

FAIL_ON_DATA_LOSS = "spark.streaming.kafka.failOnDataLoss"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    rate: RateSettings
    batch_interval_ms: int
    fail_on_data_loss: bool
    poll_seconds: float

    @classmethod
    def of(cls, ssc: StreamingContext) -> StreamSettings:
        conf = dict(ssc.sparkContext.getConf().getAll())
        fail = conf.get(FAIL_ON_DATA_LOSS, "true").lower()
        if fail not in ("true", "false"):
            raise ConfigError(f"{FAIL_ON_DATA_LOSS} is {fail!r}: give true or false.")
        return cls(
            rate=RateSettings.from_conf(conf),
            batch_interval_ms=jvm.batch_interval_ms(ssc),
            fail_on_data_loss=fail == "true",
            poll_seconds=poll_seconds(ssc.sparkContext),
        )
