"""A newer driver of a KafkaSink takes partitions over from an older one that is held at an exact point of its work."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode adds nothing

from kafka_output import Driver, Output, r

from kafka_direct.broker.write import transaction
from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import ConfigError, Fenced
from kafka_direct.offsets import LogOwner, TopicPartition
from kafka_direct.sinks.batch import KafkaBatch
from kafka_direct.sinks.kafka import sink as sink_module
from kafka_direct.testing import create_topic, wait_until
from kafka_direct.testing.topic import client_settings

SECONDS = 60


@pytest.fixture
def output(kafka, kafka_topic):
    return Output(kafka.bootstrap_servers, kafka_topic(partitions=2))


class Held:
    """A call that waits until it is let go. The error of what it is part of is kept."""

    def __init__(self):
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._outcome = None

    def here(self):
        self._reached.set()
        assert self._go_on.wait(SECONDS)

    def start(self, work):
        self._outcome = self._pool.submit(work)
        wait_until(lambda: self._reached.is_set() or self._outcome.done(), "the point to hold at", timeout=SECONDS)
        assert self._reached.is_set(), self._outcome.exception()

    def end(self):
        self._go_on.set()
        return self._outcome.exception(SECONDS)


@pytest.fixture
def held():
    return Held()


def test_what_an_older_driver_has_open_holds_nobody_up(output, kafka_topic, held):
    """It is frozen in the middle of its records. The newer one ends its transaction, and reads what is committed."""
    source = kafka_topic()
    old = output.driver("old")
    assert old.write([r(source, 0, 1)], [("k", "0")])

    def records():
        yield "k", "old"
        held.here()

    held.start(lambda: old.write([r(source, 1, 2)], records()))
    begun = time.monotonic()
    new = output.driver("new")
    assert new.write([r(source, 1, 2)], [("k", "1")])
    assert time.monotonic() - begun < 20  # an open transaction lasts a minute
    assert isinstance(held.end(), Fenced)
    assert sorted(output.values()) == ["0", "1"]


@pytest.mark.parametrize("point", ["before it has a producer", "before it begins", "before it commits"])
def test_a_task_of_an_older_driver_ends_nothing_of_a_newer_one(output, kafka_topic, held, monkeypatch, point):
    """Wherever the older one is held, and while the newer one has the same partition's transaction open."""
    source = kafka_topic()
    old = output.driver("old")
    assert old.write([r(source, 0, 1)], [("k", "0")])
    batch, once = KafkaBatch((r(source, 1, 2),)), iter([True])

    def hold_first(function):
        def call(*arguments):
            if next(once, False):
                held.here()
            return function(*arguments)

        return call

    if point == "before it has a producer":
        transaction._producers.clear()
        monkeypatch.setattr(transaction, "TransactionalProducer", hold_first(TransactionalProducer))
    else:
        name = "begin" if point == "before it begins" else "commit"
        monkeypatch.setattr(TransactionalProducer, name, hold_first(getattr(TransactionalProducer, name)))
    held.start(lambda: old.store.save_part(old.claim, batch, [("k", "old")]))
    new = output.driver("new")

    def records():
        yield "k", "1"
        error = held.end()
        assert isinstance(error, Fenced), error
        yield "k", "2"

    assert new.write([r(source, 1, 3)], records())
    assert sorted(output.values()) == ["0", "1", "2"]


def test_an_older_driver_takes_nothing_over(output, kafka_topic, held, monkeypatch):
    """Held with its own take-over open, of a partition that nobody has begun."""
    source = kafka_topic()
    old, once = output.driver("old"), iter([True])
    commit = TransactionalProducer.commit

    def commit_late(producer):
        if next(once, False):
            held.here()
        commit(producer)

    monkeypatch.setattr(TransactionalProducer, "commit", commit_late)
    held.start(lambda: old.store.take_over(old.claim, KafkaBatch((r(source, 0, 9),))))
    new = output.driver("new")
    new.store.take_over(new.claim, KafkaBatch((r(source, 5, 9),)))

    assert isinstance(held.end(), Fenced)
    assert new.store.positions([TopicPartition(source, 0)]) == {TopicPartition(source, 0): 5}
    assert new.write([r(source, 5, 6)], [("k", "5")])


def test_drivers_that_never_wrote_are_fenced_too(output, kafka_topic, held):
    """Three drivers claim; only the first has written, and is in the middle of it."""
    source = kafka_topic()
    old = output.driver("old")

    def records():
        yield "k", "old"
        held.here()

    held.start(lambda: old.write([r(source, 0, 1)], records()))
    between, new = output.driver("between"), output.driver("new")
    assert new.claim.past == (old.claim.epoch, between.claim.epoch)
    assert new.write([r(source, 0, 1)], [("k", "new")])
    assert isinstance(held.end(), Fenced)
    assert output.values() == ["new"]
    assert output.driver("last").claim.past == (new.claim.epoch,)


def test_positions_do_not_wait_for_a_frozen_driver(output, kafka_topic, held, monkeypatch):
    """They wait for one that is ending, for some seconds; then they take the output over, as its next stream would."""
    monkeypatch.setattr(sink_module, "OPEN_SECONDS", 1.0)
    source = kafka_topic()
    old = output.driver("old")
    assert old.write([r(source, 0, 1)], [("k", "0")])

    def records():
        yield "k", "old"
        held.here()

    held.start(lambda: old.write([r(source, 1, 2)], records()))
    assert output.sink().positions([source]) == {TopicPartition(source, 0): 1}
    assert isinstance(held.end(), Fenced)
    assert output.values() == ["0"]


def test_outputs_with_like_names_do_not_end_each_others_transactions(output, kafka_topic):
    """Enrich of eu-orders is not enrich-eu of orders."""
    end = kafka_topic()
    long = create_topic(output.servers["bootstrap.servers"], f"eu-{end}")
    one, other = (Driver.of(replace(output.store(), name=name)) for name in (f"a-{end}", f"a-{end}-eu"))

    def records():
        yield "k", "one"
        assert other.write([r(end, 0, 1)], [("k", "other")])

    assert one.write([r(long, 0, 1)], records())
    assert sorted(output.values()) == ["one", "other"]


def test_a_driver_of_the_version_before_is_fenced(output, kafka_topic):
    """Its ids had no epoch, and its entry named no driver before it."""
    source, store = kafka_topic(), output.store()
    servers = client_settings(output.servers["bootstrap.servers"])

    def write(id_, group, topic, offset, note, is_ended):
        producer = Producer(servers | {"transactional.id": id_})
        producer.init_transactions(30)
        producer.begin_transaction()
        metadata = Consumer(servers | {"group.id": group}).consumer_group_metadata()
        producer.send_offsets_to_transaction([ClientPartition(topic, 0, offset, note)], metadata, 30)
        producer.produce(output.topic, b"old")
        producer.flush(30)
        if is_ended:
            producer.abort_transaction(30) if is_ended == "abort" else producer.commit_transaction(30)
        return producer

    name, epoch = store.name, int(time.time()) - 9
    write(f"{name}-driver", f"{name}-driver", output.topic, epoch, '{"first": 0, "owner": "old"}', "commit")
    write(f"{name}-{source}-0", name, source, 3, f'{{"first": 0, "epoch": {epoch}}}', "commit")
    old = write(f"{name}-{source}-0", name, source, 5, f'{{"first": 0, "epoch": {epoch}}}', None)
    new = output.driver("new")
    assert new.write([r(source, 3, 4)], [("k", "new")])
    with pytest.raises(Exception, match=r"fenced|epoch"):
        old.commit_transaction(30)
    assert sorted(output.values()) == ["new", "old", "old"]


def test_of_two_drivers_of_one_log_its_owner_has_the_output(output):
    """The older one comes to its first save after the newer one has."""
    drivers = output.store().drivers
    newer = drivers.claim("newer", time.time(), LogOwner("log", 2))

    with pytest.raises(Fenced, match="belongs to another driver now, newer"):
        drivers.claim("older", time.time(), LogOwner("log", 1))
    drivers.require_newest(newer)
    again = drivers.claim("of another log", time.time(), LogOwner("other", 1))
    assert again.epoch > newer.epoch
    assert drivers.claim("of none", time.time()).epoch > again.epoch


def test_a_driver_that_runs_for_long_is_not_forgotten(output):
    """It writes its entry again each day: brokers forget it in a week, and with it which drivers were before."""
    old, driver = output.driver("old"), output.driver("me")
    before = driver.store.drivers.require_newest(driver.claim)

    driver.store.drivers.hold(driver.claim, time.time() + 3600)
    assert driver.store.drivers.require_newest(driver.claim) == before
    driver.store.drivers.hold(driver.claim, time.time() + 86_401)
    # The marker of a transaction comes after its answer, and this look does not wait for it.
    wait_until(lambda: driver.store.drivers.require_newest(driver.claim).note["at"] > before.note["at"], "the new note")
    assert output.driver("new").claim.past == (old.claim.epoch, driver.claim.epoch)


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["forgotten", "there"])
def test_a_driver_whose_clock_is_behind_takes_over(output, kafka_topic, is_forgotten):
    """Also if the brokers have forgotten the drivers' entry, by which epochs are counted on."""
    source, now = kafka_topic(), time.time()
    old = Driver.of(output.store(), "old", now + 3600)
    assert old.write([r(source, 0, 1)], [("k", "0")])
    if is_forgotten:
        admin = AdminClient(client_settings(output.servers["bootstrap.servers"]))
        admin.delete_consumer_groups([old.store.drivers.name])[old.store.drivers.name].result()
    new = Driver.of(output.store(), "new", now)

    assert new.claim.epoch > old.claim.epoch
    assert new.write([r(source, 1, 2)], [("k", "1")])
    with pytest.raises(Fenced):
        old.write([r(source, 1, 2)], [("k", "old")])
    assert sorted(output.values()) == ["0", "1"]


def test_a_source_on_another_cluster_is_refused(output, kafka_topic):
    """Before anything is computed; the error names what is missing. A topic of that name may be a mirror."""
    from kafka_direct.sinks.kafka.sources import require_sources

    source, store = kafka_topic(partitions=2), output.store()
    require_sources(store.params, "o", {TopicPartition(source, 1)})
    with pytest.raises(
        ConfigError, match=rf"output o keeps the offsets .* there is no elsewhere-0, {source}-7: a KafkaSink writes to"
    ):
        require_sources(
            store.params, "o", {TopicPartition(source, n) for n in (1, 7)} | {TopicPartition("elsewhere", 0)}
        )
