"""Bytes fetched for each byte used, when a backlog is cut by rate limits into many small ranges."""

from __future__ import annotations

import json

from kafka_direct import OffsetRange
from kafka_direct.broker import read_range, reader
from kafka_direct.options import ClientParams

_received = {}


def _remember(text):
    stats = json.loads(text)
    _received[stats["name"]] = stats["rx_bytes"]


def bytes_received(backlog, batches):
    """What comes over the wire while one process reads the backlog in `batches` batches, a range per partition each."""
    _received.clear()
    params = ClientParams.parse(
        {"bootstrap.servers": backlog.bootstrap, "statistics.interval.ms": 20, "stats_cb": _remember}
    )
    records = 0
    for batch in range(batches):
        for partition, end in enumerate(backlog.ends()):
            range_ = OffsetRange(backlog.topic, partition, end * batch // batches, end * (batch + 1) // batches)
            records += sum(map(len, read_range(params, range_)))
    assert records == backlog.records, f"{records} of {backlog.records} records were read"
    for consumer in reader._idle.values():
        for _ in range(4):
            consumer.poll(0.05)  # the last word of its statistics
    return sum(_received.values())
