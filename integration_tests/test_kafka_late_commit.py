"""What a commit that arrives late does to the next transaction of its producer (librdkafka #5423).

A producer that has sent EndTxn twice goes on when the second is answered. If the first one arrives in the middle of the
next transaction, which has the same epoch, the broker commits what is there of that: its offsets, and half its records.
"""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from kafka_output import Driver, Output, r

from kafka_direct.broker.write import transaction
from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import KafkaDirectError
from kafka_direct.options import ClientParams
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.kafka.store import KafkaStore
from kafka_direct.testing import ApiKey, LocalKafka, LocalProxy, create_topic

RECORDS = 200
QUICK = {"socket.timeout.ms": 1500, "reconnect.backoff.ms": 50, "retry.backoff.ms": 50, "client.id": "late"}


@pytest.fixture(scope="module")
def proxied():
    with LocalProxy() as proxy, LocalKafka(proxy=proxy) as kafka:
        yield proxy, kafka
        transaction._producers.clear()


@pytest.mark.parametrize("is_always_kept", [True, False], ids=["a producer that is kept", "ours"])
@pytest.mark.parametrize("is_cut", [True, False], ids=["the connection is cut", "the answer is late"])
def test_a_commit_that_comes_late(proxied, monkeypatch, is_always_kept, is_cut):
    """A kept producer loses records by it; here the next transaction has an epoch of its own, and nothing is lost."""
    proxy, kafka = proxied
    topic, source = create_topic(kafka.direct_servers), create_topic(kafka.direct_servers)
    output = Output(kafka.direct_servers, topic)
    params = ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers} | QUICK)
    driver = Driver.of(KafkaStore(params=params, name=f"late-{topic}", topic=topic))
    driver.store.take_over(driver.claim, KafkaBatch((r(source, 0, 1),)))
    if is_always_kept:
        monkeypatch.setattr(TransactionalProducer, "may_be_kept", lambda _: True)

    hold = proxy.hold(ApiKey.END_TXN)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(driver.write, [r(source, 0, 1)], [("k", "first")])
        hold.wait()
        if is_cut:
            proxy.cut()
        assert written.result(60)  # the client tries again by itself, and is answered

    def records():
        for number in range(RECORDS):
            if number == RECORDS // 2:
                (producer,) = open_producers
                producer._client.flush(30)  # as a busy producer does by itself
                hold.release()
                hold.wait_answered()
            yield "k", str(number)

    open_producers = []
    begin = TransactionalProducer.begin

    def note(producer, *arguments):
        open_producers.append(producer)
        begin(producer, *arguments)

    monkeypatch.setattr(TransactionalProducer, "begin", note)
    tries = save(lambda: driver.write([r(source, 1, 2)], records()), open_producers.clear)
    found = Counter(output.values())
    wanted = Counter(["first", *map(str, range(RECORDS))])
    if is_always_kept:
        assert found != wanted
        assert set(found.values()) == {1}
        assert len(found) == 1 + RECORDS // 2  # the rest is lost: the offsets say that the batch is there
    else:
        assert found == wanted
        assert tries == 1


def save(write, before_next):
    """Try until it succeeds, as Spark tries a task; the result is how often."""
    for tries in range(1, 5):
        with suppress(KafkaDirectError):
            write()
            return tries
        before_next()
    raise AssertionError("no attempt has succeeded")
