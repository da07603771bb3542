"""The result of a simulated run in one sentence: settled after how many batches, or not, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_direct.rate.settings import RateSettings

    from .stream import BatchRow, Workload

# A batch is on time when its total delay is at most this many intervals.
TOLERANCE = 1.25

# A stream is settled when this many batches at the end were on time: fewer may be chance.
STEADY_BATCHES = 5


def settled_after(rows: Sequence[BatchRow], interval_seconds: float) -> int | None:
    """How many batches ran before every later one was on time; None when the last ones were late.

    >>> from kafka_direct.rate import Workload, simulate
    >>> settled_after(simulate(Workload()), 1.0)
    0
    """
    limit_ms = TOLERANCE * interval_seconds * 1000
    late = [number for number, row in enumerate(rows, start=1) if row.total_delay_ms > limit_ms]
    last = late[-1] if late else 0
    return last if len(rows) - last >= min(STEADY_BATCHES, len(rows)) else None


def judge(rows: Sequence[BatchRow], workload: Workload, settings: RateSettings) -> str:
    """The verdict on a run, with the remedy when it did not settle or its lag still grows.

    >>> from kafka_direct.rate import RateSettings, Workload, simulate
    >>> workload, settings = Workload(), RateSettings(backpressure=True)
    >>> judge(simulate(workload, settings), workload, settings)
    'Settled after 0 batches: from then on every delay is within 25% of the interval of 1s.'
    """
    settled = settled_after(rows, workload.interval_seconds)
    if settled is None:
        return f"Did not settle in {len(rows)} batches: {_remedy(rows, workload, settings)}."
    sentence = (
        f"Settled after {settled} batch{'' if settled == 1 else 'es'}: from then on every delay is within 25% of the "
        f"interval of {workload.interval_seconds:g}s"
    )
    growth = _lag_growth(rows)
    if growth > 0:
        sentence += f", but the lag still grows by {growth:.0f} records/s: the stream needs a faster sink or more cores"
    return sentence + "."


def _remedy(rows: Sequence[BatchRow], workload: Workload, settings: RateSettings) -> str:
    if workload.overhead_ms >= workload.interval_seconds * 1000:
        return f"the overhead of {workload.overhead_ms:g} ms fills the interval, use a longer --interval"
    if not settings.backpressure:
        return "turn backpressure on, or set --max-rate-per-partition below what the sink can take"
    rate = rows[-1].rate
    if rate is not None and rate <= settings.gains.min_rate:
        return f"the rate is at its floor of {settings.gains.min_rate:g} records/s, lower --min-rate"
    return "use more --batches, a longer --interval, or if it swings a lower --integral"


def _lag_growth(rows: Sequence[BatchRow]) -> float:
    """Records/second by which the lag grew over the last third of the run; 0 when it is less than 1% of what arrived.

    A third of the run, because the lag differs between two intervals by chance.
    """
    tail = rows[-max(2, len(rows) // 3) :]
    arrived = sum(row.arrived for row in tail[1:])
    grown = tail[-1].lag - tail[0].lag
    return grown / (tail[-1].time_seconds - tail[0].time_seconds) if grown > 0.01 * arrived else 0.0
