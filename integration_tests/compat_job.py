"""The job of PySpark 2.4 that test_compat.py kills: two receivers of one group, united, into a file for each batch.

Run it as `python -c "import compat_job; compat_job.main()"`: its functions then pickle by name, and see the settings of
their own run, which stand in the environment.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from pathlib import Path

from killed_job import kill_session
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct.compat import KafkaUtils

SETTINGS = json.loads(os.environ["COMPAT_JOB"])
FOLDER = Path(SETTINGS["folder"])
CHECKPOINT = f"{FOLDER}/checkpoint"
full_batches = itertools.count(1)
done = threading.Event()


def build():
    conf = SparkConf().setMaster("local[2]").setAppName("receivers").set("spark.ui.enabled", "false")
    conf.set("spark.streaming.receiver.maxRate", "40").set("spark.streaming.receiver.writeAheadLog.enable", "true")
    ssc = StreamingContext(SparkContext(conf=conf), 0.5)
    ssc.checkpoint(CHECKPOINT)
    params = {"metadata.broker.list": SETTINGS["brokers"], "auto.offset.reset": "smallest"}
    topic, group = SETTINGS["topic"], f"group-of-{SETTINGS['topic']}"
    streams = [KafkaUtils.createStream(ssc, "localhost:2181", group, {topic: 1}, params) for _ in range(2)]
    ssc.union(*streams).foreachRDD(write)
    return ssc


def write(time, rdd):
    values = rdd.values().collect()
    if values and next(full_batches) == SETTINGS["die_at"]:
        kill_session(os.getsid(0))
    if values:
        (FOLDER / f"{SETTINGS['run']}-{time.timestamp()}").write_text(json.dumps(values))
    if {value for file in FOLDER.glob("*-*.*") for value in json.loads(file.read_text())} >= set(SETTINGS["until"]):
        done.set()


def main():
    ssc = StreamingContext.getOrCreate(CHECKPOINT, build)
    ssc.start()
    assert done.wait(240)
    ssc.stop(True, True)
