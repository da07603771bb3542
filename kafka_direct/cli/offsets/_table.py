"""What the commands print: plain tables for people, and JSON with the same facts for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_direct.offsets.model.loss import LossCause

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_direct.offsets import TopicPartition
    from kafka_direct.offsets.operate.partition_state import PartitionState
    from kafka_direct.offsets.operate.place import Place
    from kafka_direct.offsets.operate.reset import PartitionReset
    from kafka_direct.offsets.operate.standing import Standing, UnfinishedBatch

SHOWN_RANGES = 4

_SHOW = ("TOPIC", "PARTITION", "COMMITTED", "EARLIEST", "END", "LAG", "AGE", "LOST")
_RESET = ("TOPIC", "PARTITION", "PRIOR", "", "NEW", "RE-READ", "SKIPPED", "")


def render_show(
    place: Place,
    standing: Standing,
    states: Sequence[PartitionState],
    times_ms: Mapping[TopicPartition, int],
    now_ms: int,
) -> str:
    rows = [
        (
            state.topic_partition.topic,
            str(state.topic_partition.partition),
            _number(state.committed),
            _number(state.earliest),
            _number(state.end),
            _number(state.lag),
            _age(state, times_ms, now_ms),
            _lost(state),
        )
        for state in states
    ]
    lines = [f"{place.title}{_batch(standing, now_ms)}", *(_planned(batch) for batch in standing.unfinished)]
    if not rows:
        return "\n".join([*lines, "no position"])
    return "\n".join([*lines, *_columns([_SHOW, *rows], left={0, 7})])


def show_facts(
    place: Place,
    standing: Standing,
    states: Sequence[PartitionState],
    times_ms: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[str, Any]:
    return {
        "kind": place.kind,
        "name": place.name,
        "batch": standing.last_batch,
        "state": None if standing.last_state is None else standing.last_state.value,
        "batchTimeMs": standing.last_ms,
        "planned": [batch.id for batch in standing.unfinished],
        "partitions": [
            {
                "topic": state.topic_partition.topic,
                "partition": state.topic_partition.partition,
                "committed": state.committed,
                "earliest": state.earliest,
                "end": state.end,
                "lag": state.lag,
                "ageMs": _age_ms(state, times_ms, now_ms),
                "lost": state.lost,
                "cause": None if state.cause is None else state.cause.value,
            }
            for state in states
        ],
    }


def render_reset(place: Place, resets: Sequence[PartitionReset]) -> str:
    rows = [
        (
            reset.topic_partition.topic,
            str(reset.topic_partition.partition),
            _number(reset.prior),
            "→",
            str(reset.new),
            str(reset.reread),
            str(reset.skipped),
            _remark(reset),
        )
        for reset in resets
    ]
    reread, skipped = sum(reset.reread for reset in resets), sum(reset.skipped for reset in resets)
    total = ("", "", "", "", "", str(reread), str(skipped), "in all")
    return "\n".join([place.title, *_columns([_RESET, *rows, *([total] if len(rows) > 1 else [])], left={0, 7})])


def reset_facts(place: Place, resets: Sequence[PartitionReset], *, executed: bool) -> dict[str, Any]:
    return {
        "kind": place.kind,
        "name": place.name,
        "executed": executed,
        "partitions": [
            {
                "topic": reset.topic_partition.topic,
                "partition": reset.topic_partition.partition,
                "prior": reset.prior,
                "wanted": reset.wanted,
                "new": reset.new,
                "earliest": reset.earliest,
                "end": reset.end,
                "reread": reset.reread,
                "skipped": reset.skipped,
            }
            for reset in resets
        ],
    }


def duration(ms: int) -> str:
    """A time in its two largest units.

    >>> duration(999), duration(61_000), duration(90_000_000)
    ('0s', '1m 1s', '1d 1h')
    """
    rest = max(ms, 0) // 1000
    parts: list[str] = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count > 0 or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def _columns(table: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _batch(standing: Standing, now_ms: int) -> str:
    if standing.last_batch is None or standing.last_state is None or standing.last_ms is None:
        return ""
    verb = {"planned": "planned, not committed", "committed": "committed", "reset": "a reset"}[
        standing.last_state.value
    ]
    return f"\nbatch {standing.last_batch}, of {duration(now_ms - standing.last_ms)} ago: {verb}"


def _planned(batch: UnfinishedBatch) -> str:
    ranges = [
        f"{partition} {batch.start.get(partition, 0)} → {end}"
        for partition, end in sorted(batch.end.items())
        if batch.start.get(partition, 0) != end
    ]
    more = f" and {len(ranges) - SHOWN_RANGES} more" if len(ranges) > SHOWN_RANGES else ""
    listed = ", ".join(ranges[:SHOWN_RANGES]) or "no records"
    if batch.is_reset:
        return (
            f"batch {batch.id} is a reset that was broken off: reset again before the query starts, which would run it"
        )
    return f"batch {batch.id} is planned and not committed, and runs again at the next start: {listed}{more}"


def _age_ms(state: PartitionState, times_ms: Mapping[TopicPartition, int], now_ms: int) -> int | None:
    time_ms = times_ms.get(state.topic_partition)
    return None if time_ms is None else max(now_ms - time_ms, 0)


def _age(state: PartitionState, times_ms: Mapping[TopicPartition, int], now_ms: int) -> str:
    age = _age_ms(state, times_ms, now_ms)
    return "-" if age is None else duration(age)


def _lost(state: PartitionState) -> str:
    if state.cause is None:
        return "-"
    return f"{state.lost} {state.cause}" if state.cause is LossCause.AGED_OUT else state.cause.value


def _remark(reset: PartitionReset) -> str:
    if reset.end is None:
        return "no such partition"
    if not reset.is_in_range:
        return f"out of range: {reset.earliest} to {reset.end}"
    return f"clamped from {reset.wanted}" if reset.new != reset.wanted else ""
