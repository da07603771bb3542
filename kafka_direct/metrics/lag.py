"""`lag`: how far a query is behind, per partition, in records and in seconds, from its own progress reports.

Records are those between the end of the last batch and the end of the partition when that batch was planned. Seconds
are how long ago the partition's end was where the query is now, by earlier reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyspark

from kafka_direct.checkpointed import public
from kafka_direct.errors import ConfigError
from kafka_direct.offsets.store.spark_entry import kafka_offsets
from kafka_direct.pyspark_names import tells_triggers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql.streaming import StreamingQuery

    from kafka_direct.offsets import TopicPartition


@public()
@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far behind a query is in one partition.

    `seconds` is None while no report is old enough. The real value is then at least the age of the oldest report.
    """

    records: int
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The offsets of a query's Kafka sources in one progress report."""

    time: float  # seconds since 1970
    consumed: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


@public()
def lag(query: StreamingQuery) -> dict[TopicPartition, Lag]:
    """The lag of a running query's Kafka sources, as of its last batch; empty before the first.

    Raises:
        ConfigError: this PySpark does not report how far the topics of a Python source reach.
    """
    return measure(read_reports(query.recentProgress))


def measure(reports: Sequence[Report]) -> dict[TopicPartition, Lag]:
    """The lag at the last of some reports.

    >>> from kafka_direct.offsets import TopicPartition
    >>> t0 = TopicPartition("t", 0)
    >>> early = Report(time=100.0, consumed={t0: 5}, latest={t0: 10})
    >>> late = Report(time=160.0, consumed={t0: 40}, latest={t0: 70})
    >>> measure([early, late])
    {TopicPartition(topic='t', partition=0): Lag(records=30, seconds=30.0)}
    """
    if not reports:
        return {}
    now = reports[-1]
    return {
        partition: Lag(
            records=max(latest - now.consumed.get(partition, latest), 0),
            seconds=_seconds(partition, now.consumed.get(partition, latest), reports),
        )
        for partition, latest in sorted(now.latest.items())
    }


def read_reports(progress: Iterable[Any]) -> list[Report]:
    """The reports of Kafka sources, oldest first; Spark's own source writes the same format."""
    return [report for each in progress if (report := _read(each)) is not None]


def _read(progress: Any) -> Report | None:
    consumed: dict[TopicPartition, int] = {}
    latest: dict[TopicPartition, int] = {}
    for source in progress.sources:
        if not tells_triggers() and "PythonMicroBatchStream" in source.description:
            # What these call latestOffset is the end of the batch.
            raise ConfigError(
                f"the lag of a query of kafka_direct needs PySpark 4.2 or newer, and this is {pyspark.__version__}, "
                "whose reports do not say where topics end; set kafka.group.id, and compare the group with its topics."
            )
        ends = kafka_offsets(source.latestOffset or "")
        if ends is not None:
            consumed |= kafka_offsets(source.endOffset or "") or {}
            latest |= ends
    if not latest:
        return None  # the report of a batch that runs again has no ends
    time = datetime.fromisoformat(progress.timestamp).timestamp()
    return Report(time=time, consumed=consumed, latest=latest)


def _seconds(partition: TopicPartition, consumed: int, reports: Sequence[Report]) -> float | None:
    """How long ago the end of the partition was where the query is now."""
    now = reports[-1]
    if now.latest[partition] <= consumed:
        return 0.0
    after = now
    for before in reversed(reports[:-1]):
        if partition not in before.latest:
            return None
        if before.latest[partition] <= consumed:
            # The records between two reports are assumed to have arrived evenly.
            arrived = after.latest[partition] - before.latest[partition]
            share = (consumed - before.latest[partition]) / arrived
            return now.time - (before.time + share * (after.time - before.time))
        after = before
    return None
