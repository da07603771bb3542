"""Leaves the clicks of some users out, with `transform` and a join: what DStreams have no operation of their own for.

    spark-submit examples/blacklist.py localhost:9092 clicks mallory,trudy

A record is `time user page`. A number as the last argument ends the program after so many batches.
"""

import sys

from _run import run
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream


def main(brokers, topic, names, batches=None):
    sc = SparkContext.getOrCreate(SparkConf().setAppName("blacklist"))
    ssc = StreamingContext(sc, 1)
    blacklist = sc.parallelize([(name, True) for name in names.split(",")])

    def without_blacklisted(clicks):
        by_user = clicks.map(lambda record: (record[1].split()[1], record[1]))
        joined = by_user.leftOuterJoin(blacklist)  # (user, (click, True or None))
        return joined.filter(lambda pair: pair[1][1] is None).map(lambda pair: pair[1][0])

    stream = createDirectStream(ssc, [topic], {"bootstrap.servers": brokers, "auto.offset.reset": "earliest"})
    stream.transform(without_blacklisted).pprint()
    run(ssc, batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
