"""Writes the word counts of each batch to a file, and goes on after a crash where it stood.

    spark-submit examples/recoverable_word_count.py localhost:9092 words /tmp/recoverable-word-count

After the first start `getOrCreate` takes the context out of the checkpoint. A batch that was not finished runs again:
it reads the same records under the same `batchId()`, so it writes the same file. Try it with kill -9. A number as the
last argument ends the program after so many batches.
"""

import sys
from operator import add
from pathlib import Path

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream


def create(brokers, topic, folder):
    print("a new context")
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("recoverable word count")), 1)
    ssc.checkpoint(f"{folder}/checkpoint")
    stream = createDirectStream(ssc, [topic], {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"})
    stream.foreachRDD(lambda rdd: write(rdd, Path(folder, "counts")))
    return ssc


def write(rdd, folder):
    counts = rdd.flatMap(lambda record: record[1].split()).map(lambda word: (word, 1)).reduceByKey(add).collect()
    folder.mkdir(exist_ok=True)
    (folder / f"{rdd.batchId()}.txt").write_text("".join(f"{word} {count}\n" for word, count in sorted(counts)))


def main(brokers, topic, folder, batches=None):
    ssc = StreamingContext.getOrCreate(f"{folder}/checkpoint", lambda: create(brokers, topic, folder))
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
