"""Take the picture of `kafka-direct offsets`: a real stream on a real Kafka, moved and moved back.

python docs/images/take_offsets.py docs/images/offsets.svg
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from pathlib import Path

from click.testing import CliRunner
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext
from rich.console import Console
from rich.text import Text

from kafka_direct import createDirectStream
from kafka_direct.cli import main
from kafka_direct.testing import cluster, create_topic, produce

SERVERS = "b:9092"
MINUTE_MS = 60_000


def read(servers, checkpoint):
    """Read a part of what is there, and stop."""
    conf = SparkConf().setMaster("local[2]").setAppName("picture").set("spark.ui.enabled", "false")
    conf.set("spark.log.level", "OFF")
    with SparkContext(conf=conf) as sc:
        ssc = StreamingContext(sc, 1)
        ssc.checkpoint(checkpoint)
        params = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
        stream = createDirectStream(ssc, ["orders"], params, name="orders")
        done = []
        stream.foreachRDD(lambda rdd: done.append(rdd.count()))
        ssc.start()
        while not done:
            time.sleep(0.1)
        ssc.stop(False, True)


def main_picture(path):
    with cluster() as kafka, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        create_topic(kafka.bootstrap_servers, "orders", partitions=3)
        now = time.time_ns() // 1_000_000
        for partition in range(3):
            stamps = [now - (1000 - n) * MINUTE_MS // 10 for n in range(1000)]
            produce(kafka.bootstrap_servers, "orders", map(str, range(1000)), partition=partition, timestamps=stamps)
        read(kafka.bootstrap_servers, f"{folder}/chk")
        for partition, more in enumerate((212, 155, 93)):
            stamps = [time.time_ns() // 1_000_000 - n * 700 for n in range(more, 0, -1)]
            produce(kafka.bootstrap_servers, "orders", map(str, range(more)), partition=partition, timestamps=stamps)
        console = Console(record=True, width=112, file=io.StringIO())

        def run(command):
            console.print(Text(f"$ {command}", style="bold"))
            given = command.removeprefix("kafka-direct ").split()
            given = [kafka.bootstrap_servers if word == SERVERS else word for word in given]
            said = CliRunner().invoke(main, given).output
            console.print(Text(said.replace(folder, "").replace(kafka.bootstrap_servers, SERVERS)), soft_wrap=False)

        where = f"--bootstrap-servers {SERVERS} --checkpoint chk"
        run(f"kafka-direct offsets show {where}")
        run(f"kafka-direct offsets reset {where} --all-topics --by-duration PT90M")
        run(f"kafka-direct offsets reset {where} --all-topics --by-duration PT90M --execute --backup before.csv")
        run(f"kafka-direct offsets import {where} --from-file before.csv --execute --backup after.csv")
    Path(path).write_text(console.export_svg(title="kafka-direct offsets"))


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    with contextlib.suppress(KeyboardInterrupt):
        main_picture(target)
