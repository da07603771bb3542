"""What a worker can read, on one core and without Spark: the fetch path alone, against bare `consume()`."""

from __future__ import annotations

import json

import pyarrow as pa

from benchmarks.contest import Contest
from benchmarks.limit import consume
from kafka_direct import OffsetRange, utf8_decoder
from kafka_direct.broker.fetch.arrow import read_batches
from kafka_direct.broker.fetch.reader import read_chunks
from kafka_direct.broker.fetch.worker_consumer import build_fastest
from kafka_direct.decode.elements import Elements
from kafka_direct.options import ClientParams

COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
}


def reading(backlog, title):
    params = ClientParams.parse({"bootstrap.servers": backlog.bootstrap})
    ranges = [OffsetRange(backlog.topic, partition, 0, end) for partition, end in enumerate(backlog.ends())]

    def arrow(*columns):
        schema = pa.schema([(name, COLUMNS[name]) for name in columns])
        return lambda: sum(batch.num_rows for range_ in ranges for batch in read_batches(params, range_, schema))

    def pairs(decoder, key_decoder=None):
        elements = Elements(key_decoder=key_decoder, value_decoder=decoder)
        return lambda: sum(
            1
            for range_ in ranges
            for chunk in read_chunks(build_fastest, params, range_)
            for _ in elements.of(chunk, range_.topicPartition())
        )

    contestants = {
        "consume() alone": lambda: consume(backlog.bootstrap, backlog.topic, list(enumerate(backlog.ends()))),
        "counted": lambda: sum(len(chunk) for range_ in ranges for chunk in read_chunks(build_fastest, params, range_)),
        "to Arrow, value": arrow("value"),
        "to Arrow, all columns": arrow(*COLUMNS),
        "(key, value) as text": pairs(utf8_decoder, utf8_decoder),
        "(key, value) as bytes": pairs(None),
        "(key, value) of JSON": pairs(json.loads),
        "(key, value) of JSON, by a function of json.loads": pairs(lambda value: json.loads(value)),  # noqa: PLW0108
    }
    return Contest(f"read in one process, {title}", contestants, backlog.records, backlog.records, "consume() alone")
