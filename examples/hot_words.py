"""Shows the three most searched words of the last 3 seconds, each second.

    spark-submit examples/hot_words.py localhost:9092 searches /tmp/hot-words

A record is `user word`. `reduceByKeyAndWindow` with an inverse function adds what is new in the window, and takes away
what has left it, so a long window costs no more than a short one; it needs a checkpoint. A number as the last argument
ends the program after so many batches.
"""

import sys
from operator import add, sub

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream


def hottest(rdd):
    return rdd.sortBy(lambda pair: (-pair[1], pair[0]), numPartitions=1)


def main(brokers, topic, folder, batches=None):
    ssc = StreamingContext(SparkContext.getOrCreate(SparkConf().setAppName("hot words")), 1)
    ssc.checkpoint(folder)
    stream = createDirectStream(ssc, [topic], {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"})
    words = stream.map(lambda record: (record[1].split()[1], 1))
    counts = words.reduceByKeyAndWindow(
        add, sub, windowDuration=3, slideDuration=1, filterFunc=lambda pair: pair[1] > 0
    )
    counts.transform(hottest).pprint(3)
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
