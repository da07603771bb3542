"""What a direct stream shows on Spark's Streaming pages: how many records each batch reads, and from where."""

from __future__ import annotations

import re
import urllib.request
from html import unescape

import pytest
from pyspark.streaming import StreamingContext

from kafka_direct import createDirectStream
from kafka_direct.testing import wait_until


@pytest.fixture
def pages(spark):
    """Give a StreamingContext with Spark's web pages, and a function that fetches the text of one."""
    sc = spark({"spark.ui.enabled": "true", "spark.ui.port": "0"})
    port = sc.uiWebUrl.rsplit(":", 1)[1]

    def fetch(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/streaming/{path}", timeout=30) as answer:
            return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.read().decode())).split())

    return StreamingContext(sc, 0.5), fetch


def test_streaming_pages(pages, kafka, kafka_topic, kafka_produce, collected):
    """The Streaming page has each batch's records, and a batch's page the ranges it reads, the largest first."""
    topic, other = kafka_topic(partitions=3), kafka_topic()
    kafka_produce(topic, ["a"], partition=0)
    kafka_produce(topic, ["b", "c"], partition=2)
    kafka_produce(other, ["d", "e", "f", "g"])
    ssc, fetch = pages
    params = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "earliest"}
    one, two = (createDirectStream(ssc, [name], params) for name in (topic, other))
    one.union(two).foreachRDD(lambda time, rdd: collected.add((round(time.timestamp() * 1000), rdd.count())))

    ssc.start()
    (first, _), (second, _) = collected.wait(lambda items: len(items) >= 2)[:2]
    wait_until(lambda: "7 records)" in fetch(""), "the page to hear of the batches that ended")
    overview, full, empty = fetch(""), fetch(f"batch/?id={first}"), fetch(f"batch/?id={second}")

    assert "completed batches, 7 records)" in overview
    assert re.search(r"\d\d:\d\d:\d\d(\.\d+)? 7 records ", overview)
    assert "Input data size: 7 records" in full
    shown = ["partition: 2 offsets: 0 to 2 count: 2", "partition: 0 offsets: 0 to 1 count: 1"]
    assert " ".join(f"topic: {topic} {text}" for text in shown) in full
    assert f"topic: {other} partition: 0 offsets: 0 to 4 count: 4" in full
    assert "partition: 1" not in full
    assert "Input data size: 0 records" in empty
    assert "topic:" not in empty
