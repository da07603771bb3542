"""The job whose checkpoint stands in golden/: a stream with an output, a transformation and a state, stopped in one.

To write one for another version of Spark or Python, from this folder and with the checkout on the PYTHONPATH:
`python -c "import golden_job; golden_job.main()"`. Its functions then pickle by name. PySpark's own functions have the
paths of their files with them: put a link to `site-packages` first on the PYTHONPATH, if yours says too much. What is
there is never written again. Time is Spark's ManualClock, so a batch runs when it is told to.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import TopicPartition, createDirectStream
from kafka_direct.testing import LocalKafka, create_topic, produce

TOPIC = "kafka-direct-golden"
SETTINGS = {"spark.streaming.clock": "org.apache.spark.util.ManualClock", "spark.ui.enabled": "false"}
SETTINGS |= {"spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
FOLDER = Path(__file__).parent / "golden" / "spark-{}-python-{}.{}".format(pyspark.__version__, *sys.version_info[:2])
# Where the job ran; a copy runs in a folder whose name is as long, as Java counts the characters.
DIRECTORY = "/tmp/kafka-direct-golden-00000000"
# (key, value) of each batch, all in partition 0. The last one fails when the checkpoint is written.
BATCHES = [[("a", "1"), ("b", "2")], [("a", "3")], [("b", "4"), ("a", "5")]]

seen = []  # by the outputs: what, the batch id or time, and what was in it
_is_failing = threading.Event()


def by_key(message):
    return message.key, message


def has_value(pair):
    return pair[1].value is not None


def with_value(rdd):
    return rdd.filter(has_value)


def count(new, state):
    """How many messages a key has had, the newest, and where that was: public values in a state."""
    if not new:
        return state
    newest = new[-1]
    return (0 if state is None else state[0]) + len(new), newest, TopicPartition(newest.topic, newest.partition)


class Output:
    """Holds the stream, for commitAsync."""

    def __init__(self, stream):
        self.stream = stream

    def __call__(self, rdd):
        if _is_failing.is_set():
            raise ValueError("the output is away")
        ranges = rdd.offsetRanges()
        self.stream.commitAsync(ranges)
        seen.append(("batch", rdd.batchId(), (ranges, [message.value for _, message in rdd.collect()])))


def output_state(time, rdd):
    seen.append(("state", round(time.timestamp()), dict(rdd.collect())))


def create(sc, bootstrap, checkpoint):
    ssc = StreamingContext(sc, 1)
    ssc.checkpoint(checkpoint)
    params = {"bootstrap.servers": bootstrap, "group.id": TOPIC, "auto.offset.reset": "earliest"}
    stream = createDirectStream(ssc, [TOPIC], params, messageHandler=by_key, name="orders")
    stream.foreachRDD(Output(stream))
    counts = stream.transform(with_value).updateStateByKey(count, 1)
    counts.checkpoint(1)
    counts.foreachRDD(output_state)
    return ssc


def write(bootstrap, batch):
    keys, values = zip(*batch, strict=True)
    produce(bootstrap, TOPIC, values, keys=keys, partition=0)


def next_batch(ssc):
    """Let a second pass."""
    ssc._jssc.ssc().scheduler().jobGenerator().clock().advance(1000)


def wait(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} is not reached with {seen}"
        time.sleep(0.05)


def main():
    if FOLDER.exists():
        sys.exit(f"{FOLDER.name} is there, and stays as it is")
    directory = Path(DIRECTORY)
    shutil.rmtree(directory, ignore_errors=True)
    conf = SparkConf().setMaster("local[2]").setAppName("golden").setAll(list(SETTINGS.items()))
    with LocalKafka() as kafka, SparkContext(conf=conf) as sc:
        create_topic(kafka.bootstrap_servers, TOPIC, partitions=2)
        ssc = create(sc, kafka.bootstrap_servers, str(directory))
        ssc.start()
        commits = directory / "kafka_direct" / "orders" / "commits"
        for number, batch in enumerate(BATCHES):
            write(kafka.bootstrap_servers, batch)
            is_last = number == len(BATCHES) - 1
            if is_last:
                _is_failing.set()
            next_batch(ssc)
            wait(lambda: sum(what == "state" for what, *_ in seen) == number + 1, f"batch {number}")  # noqa: B023
            if not is_last:
                wait((commits / str(number)).exists, f"the commit of batch {number}")
        newest = directory / f"checkpoint-{1000 * len(BATCHES)}"
        wait(newest.exists, "the checkpoint")
        ssc.stop(False, False)
        keep(directory, newest, kafka.bootstrap_servers)
    shutil.rmtree(directory)


def keep(directory, checkpoint, bootstrap):
    """Copy what a recovery needs: the newest checkpoint, the state, and the log, without the ids of its topic."""
    shutil.copytree(directory, FOLDER, ignore=shutil.ignore_patterns("checkpoint-*", ".*", "receivedData", "*lease"))
    shutil.copy(checkpoint, FOLDER)
    for plan in (FOLDER / "kafka_direct" / "orders" / "offsets").iterdir():
        # The topic of a copy is another one; the brokers of before Kafka 2.8 gave none.
        plan.write_text(json.dumps(json.loads(plan.read_text()) | {"topicIds": {}}, separators=(",", ":")) + "\n")
    (FOLDER / "written.json").write_text(json.dumps({"bootstrap": bootstrap, "directory": DIRECTORY}) + "\n")
