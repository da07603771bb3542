"""The coordinator of a KafkaSink's group, or of its transactions, moves between two steps of a transaction.

By default each step comes once; ALL_MOMENTS=1 runs them all (`make moments`).
"""

import os
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from crash_faults import NODES, STATE, java_hash
from kafka_output import Output, r

from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import KafkaDirectError
from kafka_direct.offsets import TopicPartition
from kafka_direct.testing import LocalKafka, create_topic, wait_until
from kafka_direct.testing.topic import client_settings

# In front of which call the coordinator moves.
STEPS = {"begin": "begin", "offsets": "note", "records": "write", "commit": "commit"}
HOW = ["kill", "shut_down"]
CASES = [(step, kind, how) for step in STEPS for kind in STATE for how in HOW]
if "ALL_MOMENTS" not in os.environ:
    CASES = [(step, list(STATE)[n // 2 % 2], HOW[n % 2]) for n, step in enumerate(STEPS)]
TRIES = 4  # as many as Spark's tasks have


@pytest.fixture(scope="module")
def kafka():
    with LocalKafka(len(NODES)) as cluster:
        yield cluster


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("step", "kind", "how"), CASES)
def test_a_transaction_goes_on_or_is_done_again(kafka, monkeypatch, step, kind, how):
    """Each record is there once; at the first try, or at one of the next, as tasks have them."""
    servers = kafka.bootstrap_servers
    source, target = (create_topic(servers, replication=len(NODES)) for _ in range(2))
    output = Output(servers, target)
    driver = output.driver()
    assert driver.write([r(source, 0, 1)], [("k", "0")])
    writer = driver.store.writers.of(driver.claim.epoch, TopicPartition(source, 0))
    name = driver.store.name if kind == "group" else writer
    gone = []
    original = getattr(TransactionalProducer, STEPS[step])

    def after_a_move(producer, *given):
        if not gone:
            gone.append(coordinator(kafka, kind, name))
            getattr(kafka, how)(gone[0])
            wait_until(lambda: coordinator(kafka, kind, name) != gone[0], "another coordinator", timeout=60)
        return original(producer, *given)

    monkeypatch.setattr(TransactionalProducer, STEPS[step], after_a_move)
    try:
        errors = tries(lambda: driver.write([r(source, 1, 3)], [("k", "1"), ("k", "2")]))
    finally:
        for node in gone:
            kafka.start_node(node)

    assert len(gone) == 1
    assert len(errors) < TRIES, errors
    assert sorted(output.values()) == ["0", "1", "2"]
    assert driver.store.positions([TopicPartition(source, 0)]) == {TopicPartition(source, 0): 3}
    assert len(tries(lambda: driver.write([r(source, 3, 4)], [("k", "3")]))) < TRIES
    assert sorted(output.values()) == ["0", "1", "2", "3"]


def tries(work):
    """Do something until it works; the result is the errors."""
    errors = []
    for _ in range(TRIES):
        try:
            work()
        except KafkaDirectError as error:
            errors.append(error)
        else:
            break
    return errors


def coordinator(kafka, kind, name):
    """The node that leads the part of the state in which the group or the transactional.id is."""
    topic = STATE[kind]
    client = AdminClient(client_settings(kafka.direct_servers))
    partitions = client.list_topics(topic, timeout=30).topics[topic].partitions
    return kafka.leader(topic, java_hash(name) % len(partitions))
