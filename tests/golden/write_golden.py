"""What a checkpoint may hold of this package, one of each, and the files beside this that hold them as pickles.

A file is never written again: users' checkpoints look like it. Run this when a kind or a version is new, and commit
what it adds: `python tests/golden/write_golden.py`. The functions are the standard library's, so that the files load
with any Python.
"""

from __future__ import annotations

import json
import operator
import re
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.serializers import CloudPickleSerializer

from kafka_direct import DirectKafkaInputDStream, KafkaMessage, OffsetRange, TopicPartition, errors, utf8_decoder
from kafka_direct.compat import Broker, KafkaMessageAndMetadata
from kafka_direct.compat.message import MessageHandler
from kafka_direct.compat.receivers import Spare
from kafka_direct.decode.elements import Elements
from kafka_direct.dstream.compute import Compute, DerivedOutput, Output, Transformation
from kafka_direct.dstream.lineage import Lineage
from kafka_direct.dstream.spec import Receivers, StreamSpec
from kafka_direct.offsets import Loss, LossCause, parse_position
from kafka_direct.options import ClientParams, Subscription
from kafka_direct.options.callback import Callback
from kafka_direct.sinks import FileSink, KafkaRecord, KafkaSink, SqlSink
from kafka_direct.sinks.output import Output as SinkOutput
from kafka_direct.sinks.sql.store import SqlOffsetStore

FOLDER = Path(__file__).parent
T0, T10 = TopicPartition("orders", 0), TopicPartition("orders", 10)

PARAMS = ClientParams.parse(
    {
        "bootstrap.servers": "broker:9092",
        "sasl.password": "env:PASSWORD",
        "group.id": "orders",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 20,
    }
)
SPEC = StreamSpec(
    name="orders",
    input_id=0,
    subscription=Subscription.parse(["orders", "clicks"]),
    params=PARAMS,
    from_offsets=parse_position({T0: 0, T10: "latest-100"}),
    elements=Elements(key_decoder=None, value_decoder=json.loads, message_handler=operator.attrgetter("value")),
    max_rate={T0: 0, T10: 2.5},
    min_rate=5,
)
LATER_SPEC = StreamSpec(
    name="clicks",
    input_id=1,
    subscription=Subscription.parse(re.compile("clicks-.*", re.IGNORECASE)),
    params=ClientParams.parse({"bootstrap.servers": "broker:9092", "auto.offset.reset": "error"}),
    from_offsets=parse_position("-1h30m"),
    elements=Elements(),
    max_rate=operator.attrgetter("partition"),
    min_rate=None,
)
RECEIVER_SPEC = replace(SPEC, receivers=Receivers(2))
MESSAGE = KafkaMessageAndMetadata("orders", 0, 42, None, b"apple")
LOSS = Loss(topic_partition=T0, cause=LossCause.AGED_OUT, wanted=0, earliest=5, latest=9, resumed=5)


def handle():
    """A stream as a recovered function has it: no context, only the name."""
    stream = DirectKafkaInputDStream.__new__(DirectKafkaInputDStream)
    stream.name = "orders"
    return stream


connect = partial(sqlite3.connect, "results.db")

# By file, which is `<kind>-<version>` or, of the same kind, `<kind>-<version>-<what is special>`.
VALUES = {
    "stream-1": Compute(SPEC),
    "stream-1-pattern": Compute(LATER_SPEC),
    "stream-1-receivers": Compute(RECEIVER_SPEC),
    "stream-name-1": handle(),
    "output-1": Output("orders", operator.methodcaller("count"), takes_time=False),
    "derived-output-1": DerivedOutput(
        Lineage(streams=("orders", "clicks"), has_other_inputs=True, slide_ms=4000, interval_ms=2000),
        operator.methodcaller("count"),
        takes_time=True,
    ),
    "transformation-1": Transformation("orders", operator.add, takes_time=True),
    "message-handler-1": MessageHandler(operator.attrgetter("message"), None, json.loads),
    "spare-receiver-1": Spare(),
    "elements-1": SPEC.elements,
    "client-params-1": PARAMS,
    "client-params-1-reader": ClientParams(
        entries=PARAMS.entries,
        group_id=None,
        isolation_level="read_uncommitted",
        auto_offset_reset=None,
        reader_group="readers",
    ),
    "callback-1": Callback.of(len, is_asked=True),
    "subscription-1": Subscription.parse([T0, T10]),
    "loss-1": LOSS,
    "sql-store-1": SqlOffsetStore(connect, "orders", table="shop.offsets", paramstyle="qmark"),
    "sql-sink-1": SqlSink(connect, "orders"),
    "kafka-sink-1": KafkaSink({"bootstrap.servers": "broker:9092"}, "enriched", name="enrich"),
    "file-sink-1": FileSink("hdfs:///orders/"),
    "sink-output-1": SinkOutput("orders"),
    # What functions and states hold by public path.
    "public-1": {
        "message": KafkaMessage("orders", 0, 0, None, "k", None, [("h", b"v")]),
        "record": KafkaRecord("v", key="k", partition=0),
        "partition": T0,
        "range": OffsetRange("orders", 0, 0, 5),
        "decoder": utf8_decoder,
    },
    "public-1-compat": {"message": MESSAGE, "leader": Broker("host", 9092)},
    "error-1": errors.OffsetsLost("records are gone", losses=(LOSS,)),
}


def main() -> None:
    for name, value in VALUES.items():
        path = FOLDER / f"{name}.pickle"
        if path.exists():
            print(f"{path.name} is there, and stays as it is")
            continue
        path.write_bytes(CloudPickleSerializer().dumps(value))
        print(f"{path.name} is new")


if __name__ == "__main__":
    main()
