"""`StreamSettings`: what a stream takes from SparkConf, read once."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.rate import RateSettings
from kafka_direct.rate.settings import MAX_RATE_PER_PARTITION, MIN_RATE_PER_PARTITION

from . import jvm
from .rdd import POLL_MS, poll_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.streaming import StreamingContext

PREFIX = "spark.streaming.kafka."
FAIL_ON_DATA_LOSS = PREFIX + "failOnDataLoss"
KNOWN = (FAIL_ON_DATA_LOSS, MAX_RATE_PER_PARTITION, MIN_RATE_PER_PARTITION, POLL_MS)
# Keys of Spark's JVM stream with nothing to set here: jobs bring them along.
NOT_NEEDED = ("consumer.cache.", "allowNonConsecutiveOffsets", "maxRetries")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    rate: RateSettings
    batch_interval_ms: int
    fail_on_data_loss: bool
    poll_seconds: float

    @classmethod
    def of(cls, ssc: StreamingContext) -> StreamSettings:
        conf = dict(ssc.sparkContext._conf.getAll())
        _refuse_unknown(conf)
        fail = conf.get(FAIL_ON_DATA_LOSS, "true").lower()
        if fail not in ("true", "false"):
            raise ConfigError(f"{FAIL_ON_DATA_LOSS} is {fail!r}: give true or false.")
        return cls(
            rate=RateSettings.from_conf(conf),
            batch_interval_ms=jvm.batch_interval_ms(ssc),
            fail_on_data_loss=fail == "true",
            poll_seconds=poll_seconds(ssc.sparkContext),
        )


def _refuse_unknown(conf: Mapping[str, str]) -> None:
    for key in conf:
        if key.startswith(PREFIX) and key not in KNOWN and not key.removeprefix(PREFIX).startswith(NOT_NEEDED):
            near = difflib.get_close_matches(key, KNOWN, n=1, cutoff=0)[0]
            raise ConfigError(f"there is no setting {key}; did you mean {near}?")
