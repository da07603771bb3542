"""Take streaming-page.png and streaming-batch.png: a stream on Spark's Streaming pages, in headless Chromium.

Run it where `chromium` is on the PATH: `python docs/images/take_streaming_page.py`. It needs about two minutes.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.testing import cluster, create_topic, produce

SECONDS = 75
HERE = Path(__file__).parent


def shoot(url: str, name: str, height: int) -> None:
    size = f"--window-size=1400,{height}"
    command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", size, "--virtual-time-budget=8000"]
    subprocess.run([*command, f"--screenshot={HERE / name}", url], check=True, timeout=120)


def write(servers: str, seconds: float) -> None:
    """Write to two topics in waves; clicks come three times as often as orders."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        wave = 300 + 200 * math.sin(time.monotonic() / 4)
        for topic, share in (("orders", 0.1), ("clicks", 0.3)):
            keys = [f"customer-{number % 50}" for number in range(int(wave * share))]
            produce(servers, topic, ["x"] * len(keys), keys=keys)
        time.sleep(0.3)


os.environ["PYSPARK_PYTHON"] = sys.executable
with cluster() as kafka, tempfile.TemporaryDirectory() as checkpoint:
    for topic, partitions in (("orders", 2), ("clicks", 3)):
        create_topic(kafka.bootstrap_servers, topic, partitions=partitions)
    conf = SparkConf().setMaster("local[2]").setAppName("clicks and orders").set("spark.ui.port", "0")
    with SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false").set("spark.log.level", "OFF")) as sc:
        sc.parallelize([1]).map(str).count()  # starts a worker, while no batch waits for it
        ssc = StreamingContext(sc, 2)
        ssc.checkpoint(checkpoint)
        stream = createDirectStream(ssc, ["orders", "clicks"], {"bootstrap.servers": kafka.bootstrap_servers})
        batches = []
        stream.foreachRDD(lambda time, rdd: batches.append((rdd.count(), time)))
        ssc.start()
        writer = threading.Thread(target=write, args=(kafka.bootstrap_servers, SECONDS))
        writer.start()
        writer.join(SECONDS - 35)  # the pages are taken while records come
        pages = f"http://127.0.0.1:{sc.uiWebUrl.rsplit(':', 1)[1]}/streaming/"
        full = [batch_time for count, batch_time in batches if count > 0]
        shoot(pages, "streaming-page.png", 1500)
        shoot(f"{pages}batch/?id={round(full[-2].timestamp() * 1000)}", "streaming-batch.png", 700)
        writer.join()
        ssc.stop(False, True)
