"""Tokens that expire under running streams and queries: new ones are taken in time, on the driver and in workers."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from kafka_output import Output
from logins import Login

from kafka_direct import createDirectStream
from kafka_direct.sinks import KafkaSink
from kafka_direct.testing import LocalKafka, LocalOidc, Security, create_topic, produce, wait_until

TOKEN_SECONDS = 20
LIVES = 3
LOGINS = [Login("oauthbearer", "librdkafka"), Login("oauth_cb", "librdkafka"), Login("oauthbearer", "PKCS12")]


@pytest.fixture(scope="module")
def oidc():
    with LocalOidc(expiry_seconds=TOKEN_SECONDS) as server:
        yield server


@pytest.fixture(scope="module")
def secured(oidc):
    """Brokers that end a connection whose token has expired."""
    with LocalKafka(security=Security(oidc=oidc)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def session(session):
    """With the module that `oauth_cb` names, as `--py-files` brings it."""
    session.sparkContext.addPyFile(str(Path(__file__).parent / "oidc_token.py"))
    return session


class Writing:
    """Writes a record twice a second until the end, on the plain port."""

    def __init__(self, kafka, topic):
        self.values = []
        self._kafka, self._topic, self._end = kafka, topic, threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _write(self):
        while not self._end.wait(0.5):
            self.values.append(str(len(self.values)))
            produce(self._kafka.direct_servers, self._topic, self.values[-1:])


class Streams:
    """A stream and a query for each login. A stream also writes what it reads, by a KafkaSink of the same login."""

    def __init__(self, session, kafka, oidc, topic, folder):
        from pyspark.streaming import StreamingContext

        self.read = {(door, str(login)): [] for door in ("stream", "query") for login in LOGINS}
        self.failures, self.queries, self.outputs = [], [], {}
        self.ssc = StreamingContext(session.sparkContext, 2)
        for login in LOGINS:
            params = login.params(kafka, oidc)
            self._add_stream(login, params, kafka, topic)
            self._start_query(login, params, session, topic, folder)
        self.ssc.start()

    def _add_stream(self, login, params, kafka, topic):
        read = self.read["stream", str(login)]
        output = self.outputs[str(login)] = Output(kafka.direct_servers, create_topic(kafka.direct_servers))
        sink = KafkaSink(params, output.topic, f"copy-{login}")
        given = params | {"auto.offset.reset": "earliest", "group.id": f"readers-{login}"}
        stream = createDirectStream(self.ssc, [topic], given, name=f"tokens-{login}")

        def save(rdd):
            try:
                read.extend(value for _, value in rdd.collect())
                sink.save_partitions(rdd)
                stream.commitAsync(rdd.offsetRanges())
            except Exception as error:
                self.failures.append(error)
                raise

        stream.foreachRDD(save)

    def _start_query(self, login, params, session, topic, folder):
        read = self.read["query", str(login)]
        options = {f"kafka.{key}": value for key, value in params.items()} | {"subscribe": topic}
        frame = session.readStream.format("kafka_direct").options(startingOffsets="earliest", **options).load()
        writer = frame.selectExpr("string(value)").writeStream.option("checkpointLocation", str(folder / str(login)))
        writer = writer.foreachBatch(lambda rows, _: read.extend(row.value for row in rows.collect()))
        self.queries.append(writer.start())

    def wait_for(self, count):
        wait_until(lambda: all(len(read) >= count for read in self.read.values()), "all records", timeout=120)

    def stop(self):
        self.ssc.stop(False, True)
        for query in self.queries:
            query.stop()


def test_tokens_are_renewed_under_running_streams(session, secured, oidc, tmp_path):
    """For three lives of a token no batch fails, and each record is read and written once, also what comes last."""
    topic = create_topic(secured.direct_servers)
    streams = Streams(session, secured, oidc, topic, tmp_path)
    try:
        with Writing(secured, topic) as writing:
            end = time.monotonic() + LIVES * TOKEN_SECONDS
            while time.monotonic() < end:
                assert not any(query.awaitTermination(1) for query in streams.queries)
        last = writing.values
        streams.wait_for(len(last))
    finally:
        streams.stop()

    assert streams.failures == []
    assert len(last) > LIVES * TOKEN_SECONDS / 4
    assert streams.read == dict.fromkeys(streams.read, last)
    assert {name: output.values() for name, output in streams.outputs.items()} == dict.fromkeys(streams.outputs, last)
