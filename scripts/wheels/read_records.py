"""Reads records by the wheel that is on the path, as a worker does, and prints what it got as one line of JSON.

Run by the Python of another platform, with the brokers' addresses, a topic and the number of its records.
"""

import json
import platform
import sys

import pyarrow as pa

from kafka_direct.broker.fetch.arrow import COLUMN_TYPES, read_batches
from kafka_direct.broker.fetch.librdkafka import load_librdkafka
from kafka_direct.broker.fetch.reader import read_chunks
from kafka_direct.broker.fetch.worker_consumer import build_fastest
from kafka_direct.offsets import OffsetRange
from kafka_direct.options import ClientParams

servers, topic, count = sys.argv[1:]
params, all_of_it = ClientParams.parse({"bootstrap.servers": servers}), OffsetRange(topic, 0, 0, int(count))
columns = pa.schema([(name, kinds[0]) for name, kinds in COLUMN_TYPES.items() if name != "headers"])

chunks, texts = set(), []
for chunk in read_chunks(build_fastest, params, all_of_it):
    chunks.add(type(chunk).__name__)
    texts += zip(chunk.texts_of("key"), chunk.texts_of("value"), strict=True)
table = pa.Table.from_batches(read_batches(params, all_of_it, columns), columns)
library = load_librdkafka()
got = {
    "machine": f"{platform.system()} {platform.machine()}",
    "loops": None if library is None else library.path.name,
    "chunks": sorted(chunks),
    "texts": texts,
    "columns": [
        [None if cell is None else cell.decode() for cell in table[name].to_pylist()] for name in ("key", "value")
    ],
    "offsets": table["offset"].to_pylist(),
    "times": table["timestamp"].cast(pa.int64()).to_pylist(),  # as numbers: Windows has no list of time zones
}
print(json.dumps(got))
