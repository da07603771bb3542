"""A simulated query: the batches of Structured Streaming with a trigger, without Spark, Kafka or a clock.

As in Spark, a batch that ends before the next multiple of the trigger's interval is followed by a wait, and one that
runs past it by the next batch at once. The rate learns when Spark asks for the next batch, not before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_direct.rate.query_rate import QueryRate
from kafka_direct.rate.trigger_wait import TriggerWait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .stream import Workload

BEGIN = 1_795_000_000.37  # when the simulated query starts, by the wall clock: between two triggers


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRow:
    """One batch. `seconds` is its work, `waited_seconds` the wait for the trigger after it."""

    time_seconds: float
    rate: float
    records: int
    seconds: float
    waited_seconds: float


def simulate_query(
    workload: Workload,
    *,
    trigger_seconds: float = 0.0,
    initial_rate: float | None = None,
    late_seconds: float = 0.003,
    knows_ends: bool = False,
) -> list[QueryRow]:
    """The batches of a query whose target is the workload's interval.

    Args:
        workload: what arrives, and how fast it can be processed.
        trigger_seconds: the interval of `processingTime`; 0 is the default trigger, which never waits.
        initial_rate: as the option of that name.
        late_seconds: from a trigger to its question. Spark takes 3 ms, and another source of the query longer.
        knows_ends: the option `checkpointLocation` is given.

    >>> from kafka_direct.rate import Workload
    >>> for row in simulate_query(Workload(batches=4, backlog=10**6, interval_seconds=2), trigger_seconds=2):
    ...     print(f"{row.records} records: {row.seconds:.1f} s of work, {row.waited_seconds:.1f} s of waiting")
    2000 records: 0.3 s of work, 1.3 s of waiting
    2449 records: 0.3 s of work, 1.7 s of waiting
    4898 records: 0.6 s of work, 1.4 s of waiting
    9796 records: 1.1 s of work, 0.9 s of waiting
    """
    return list(_rows(workload, trigger_seconds, initial_rate, late_seconds, knows_ends=knows_ends))


def _rows(
    workload: Workload, trigger: float, initial_rate: float | None, late: float, *, knows_ends: bool
) -> Iterator[QueryRow]:
    wait = None if knows_ends else TriggerWait(target_seconds=workload.interval_seconds)
    query = QueryRate(target_seconds=workload.interval_seconds, initial_rate=initial_rate, wait=wait)
    now, taken = 0.0, 0
    for _ in range(workload.batches):
        lag = workload.arrived(now) - taken
        limits = query.limit({0: lag}, min_rate=1)
        records = lag if limits is None else min(lag, limits[0])
        rate = query.rate
        end = workload.finish(now, records)
        following = max(end, _next_multiple(now, trigger) + late) if trigger > 0 else end
        yield QueryRow(time_seconds=now, rate=rate, records=records, seconds=end - now, waited_seconds=following - end)
        taken += records
        if knows_ends:
            query.took(records, end - now, is_cut=records < lag)
        else:
            query.asked(BEGIN + following, following - now, records, is_cut=records < lag)
        now = following


def _next_multiple(now: float, interval: float) -> float:
    return (math.floor((BEGIN + now) / interval) + 1) * interval - BEGIN
