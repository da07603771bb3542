"""The compiled way of records: the same rows and elements as from messages, and messages wherever it cannot go."""

import ctypes
import gc
import json
import logging
import os
import shutil
import subprocess
import sys
from contextlib import closing

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from kafka_direct import OffsetRange, TopicPartition, testing, utf8_decoder
from kafka_direct.broker.deadline import Deadline
from kafka_direct.broker.fetch import arrow, columns, worker_consumer
from kafka_direct.broker.fetch.arrow import COLUMN_TYPES, read_batches
from kafka_direct.broker.fetch.librdkafka import SWITCH, load_librdkafka
from kafka_direct.broker.fetch.reader import ReadSettings, read_chunks
from kafka_direct.broker.fetch.worker_consumer import ArrayConsumer, MessageConsumer, build_fastest
from kafka_direct.decode.elements import Elements
from kafka_direct.errors import BrokerUnavailable, ConfigError
from kafka_direct.options import ClientParams
from kafka_direct.testing.node import free_ports

# Not where it cannot be loaded: with a compiler it must.
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="kafka_direct was built without a C compiler")

SETTINGS = ReadSettings(poll_seconds=60)
COLUMNS = pa.schema([(name, kinds[0]) for name, kinds in COLUMN_TYPES.items() if name != "headers"])


@pytest.fixture
def library():
    return load_librdkafka()


def params_of(kafka, **given):
    return ClientParams.parse({"bootstrap.servers": kafka.bootstrap_servers, **given})


def read(kafka, topic, until, start=0, columns=COLUMNS, **given):
    batches = read_batches(params_of(kafka, **given), OffsetRange(topic, 0, start, until), columns, SETTINGS)
    return pa.Table.from_batches(batches, columns)


def read_messages(*args, monkeypatch, **given):
    with monkeypatch.context() as patch:
        patch.setattr(arrow, "build_fastest", MessageConsumer)
        return read(*args, **given)


def of_chunks(elements, chunks, topic):
    for chunk in chunks:
        yield from elements.of(chunk, TopicPartition(topic, 0))


def each_element(kafka, topic, until, decoder, build=build_fastest):
    elements = Elements(key_decoder=decoder, value_decoder=decoder)
    chunks = read_chunks(build, params_of(kafka), OffsetRange(topic, 0, 0, until), SETTINGS)
    return of_chunks(elements, chunks, topic)


def read_elements(*args):
    return list(each_element(*args))


KEYS = [None, b"", b"k", b"\x00" * 300]
TEXTS = [None, b"", "p\xe4ck \U0001f600".encode(), b"v" * 5000, b"\x00"]

ODD_JSON = [b"0", b" 7 ", b"\n[1]", b"\xef\xbb\xbf1", '"ä"'.encode("utf-16"), b"1\x00", b'"\xed\xa0\x80"', b"NaN"]


@pytest.mark.parametrize("decoder", [None, utf8_decoder, repr])
def test_every_shape_of_record_is_the_same_element_as_from_messages(kafka, kafka_topic, kafka_produce, decoder):
    """Null, empty and long keys and values, as bytes, as text and through a function."""
    topic = kafka_topic()
    keys, values = ([column[n % len(column)] for n in range(9001)] for column in (KEYS, TEXTS))
    kafka_produce(topic, values, keys=keys, config={"linger.ms": 20})

    ours = read_elements(kafka, topic, 9001, decoder)

    assert ours == read_elements(kafka, topic, 9001, decoder, MessageConsumer)
    decode = decoder or (lambda found: found)
    assert ours == [(decode(key), decode(value)) for key, value in zip(keys, values, strict=True)]


@pytest.mark.parametrize("build", [build_fastest, MessageConsumer])
@pytest.mark.parametrize("among", ODD_JSON)
def test_json_is_what_json_loads_makes_of_it(kafka, kafka_topic, kafka_produce, among, build):
    """Also where a record among others is padded, or of an encoding that json.loads finds out about."""
    topic = kafka_topic()
    values = [b'{"n": 1}', among, b"[]"]
    kafka_produce(topic, values, keys=values)

    found = read_elements(kafka, topic, 3, json.loads, build)

    assert repr(found) == repr(
        [(json.loads(value), json.loads(value)) for value in values]
    )  # NaN is not equal to itself


@pytest.mark.parametrize("build", [build_fastest, MessageConsumer])
@pytest.mark.parametrize("wrong", [None, b"", b"1,2", b"[1", b"{}]"])
def test_what_is_no_json_is_named(kafka, kafka_topic, kafka_produce, wrong, build):
    topic = kafka_topic()
    values = [b"[1]", wrong, b"2]"]
    kafka_produce(topic, values, keys=[b"0"] * 3)

    with pytest.raises((ValueError, TypeError)) as caught:
        read_elements(kafka, topic, 3, json.loads, build)

    assert caught.value.__notes__ == [f"while decoding the value of {topic}-0 offset 1"]


@pytest.mark.parametrize("build", [build_fastest, MessageConsumer])
@pytest.mark.parametrize("decoder", [utf8_decoder, bytes.decode])
@pytest.mark.parametrize("wrong", [b"\xff", b"ok\xed\xa0\x80", b"\xc3"])
def test_a_record_that_cannot_be_decoded_is_named(kafka, kafka_topic, kafka_produce, decoder, wrong, build):
    """Whichever way it came; those before it come first."""
    topic, came = kafka_topic(), []
    kafka_produce(topic, [b"ok"] * 5 + [wrong], keys=["k"] * 6)

    with pytest.raises(UnicodeDecodeError) as caught:
        came.extend(each_element(kafka, topic, 6, decoder, build))

    assert caught.value.__notes__ == [f"while decoding the value of {topic}-0 offset 5"]
    assert came == [("k", "ok")] * 5


def test_a_function_that_raises_stop_iteration_ends_nothing_early(kafka, kafka_topic, kafka_produce):
    """As `next(...)` in it does; taken for the end of the records it would lose the rest of them."""
    topic = kafka_topic()
    kafka_produce(topic, ["a", "b", "stop", "c"])

    def find(text):
        return next(letter for letter in "abc" if letter == text)

    for elements in (
        Elements(value_decoder=lambda value: find(value.decode())),
        Elements(message_handler=lambda message: find(message.value)),
    ):
        chunks = read_chunks(MessageConsumer, params_of(kafka), OffsetRange(topic, 0, 0, 4), SETTINGS)
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(of_chunks(elements, chunks, topic))


def test_elements_of_a_part_of_a_partition(kafka, kafka_topic, kafka_produce):
    """A range that begins and ends in the middle of a producer's batch has its records and no others."""
    topic = kafka_topic()
    kafka_produce(topic, [str(n) for n in range(3000)], config={"linger.ms": 20})

    elements, range_ = Elements(), OffsetRange(topic, 0, 7, 2990)
    chunks = read_chunks(build_fastest, params_of(kafka), range_, SETTINGS)

    assert [value for _, value in of_chunks(elements, chunks, topic)] == [str(n) for n in range(7, 2990)]


def test_a_function_is_called_when_its_element_is_wanted(kafka, kafka_topic, kafka_produce):
    """`take(1)` decodes one record, not a chunk of them."""
    topic, calls = kafka_topic(), []
    kafka_produce(topic, ["x"] * 3000, config={"linger.ms": 20})

    came = each_element(kafka, topic, 3000, lambda found: calls.append(found) or found)
    next(came)
    came.close()

    assert len(calls) == 2  # the key and the value


def test_every_shape_of_record_is_the_same_row_as_from_messages(kafka, kafka_topic, monkeypatch):
    """Null, empty and long keys and values, times of both kinds, aborted and control records between them."""
    topic = kafka_topic()
    keys, values = KEYS, [*TEXTS, b"\xff\xfe"]
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "compression.type": "zstd"}
    )
    producer.init_transactions()
    for round_ in range(6):
        producer.begin_transaction()
        for number in range(700):
            key, value = keys[number % len(keys)], values[(number + round_) % len(values)]
            producer.produce(topic, value, key, partition=0, timestamp=1_600_000_000_000 + number)
        producer.flush()  # an abort would keep back what has not been sent
        (producer.commit_transaction if round_ % 2 == 0 else producer.abort_transaction)()
    until = 6 * 701

    for isolation, rows in (("read_committed", 2100), ("read_uncommitted", 4200)):
        ours = read(kafka, topic, until, **{"isolation.level": isolation})
        theirs = read_messages(kafka, topic, until, monkeypatch=monkeypatch, **{"isolation.level": isolation})
        assert ours.num_rows == rows
        assert ours.equals(theirs)
        ours.validate(full=True)

    part = read(kafka, topic, 1999, start=3, **{"isolation.level": "read_committed"})
    assert part["offset"].to_pylist()[0] == 3
    assert max(part["offset"].to_pylist()) <= 1998


def test_a_time_of_the_brokers(kafka, monkeypatch):
    topic = testing.create_topic(kafka.bootstrap_servers, config={"message.timestamp.type": "LogAppendTime"})
    testing.produce(kafka.bootstrap_servers, topic, ["a", "b"])

    ours = read(kafka, topic, 2)

    assert ours["timestampType"].to_pylist() == [1, 1]
    assert ours.equals(read_messages(kafka, topic, 2, monkeypatch=monkeypatch))


def test_the_compiled_way_is_taken(kafka, kafka_topic, kafka_produce, monkeypatch):
    """The other tests here would pass without it."""
    topic = kafka_topic()
    kafka_produce(topic, ["a"])
    built = []
    monkeypatch.setattr(arrow, "build_fastest", lambda config: built.append(build_fastest(config)) or built[-1])

    assert read(kafka, topic, 1)["value"].to_pylist() == [b"a"]
    assert isinstance(built[0], ArrayConsumer)


def test_a_chunk_larger_than_a_column_holds_comes_in_parts(kafka, kafka_topic, kafka_produce, monkeypatch):
    topic = kafka_topic()
    kafka_produce(topic, [str(number) * 1000 for number in range(1000)])
    monkeypatch.setattr(columns, "MAX_COLUMN_BYTES", 10_000)

    batches = list(read_batches(params_of(kafka), OffsetRange(topic, 0, 0, 1000), COLUMNS, SETTINGS))

    assert max(batch["value"].nbytes for batch in batches) < 15_000
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(1000))


def test_memory_is_given_back(kafka, kafka_topic, kafka_produce):
    """Read to the end, or left in the middle: a megabyte a round would show."""
    topic = kafka_topic()
    kafka_produce(topic, ["x" * 1000] * 5000, config={"linger.ms": 20})
    range_ = OffsetRange(topic, 0, 0, 5000)

    def round_():
        assert read(kafka, topic, 5000).num_rows == 5000
        left = read_batches(params_of(kafka), range_, COLUMNS, SETTINGS)
        next(left)
        left.close()
        for decoder in (None, utf8_decoder):
            assert len(read_elements(kafka, topic, 4500, decoder)) == 4500  # the rest is cut off
        gc.collect()

    for _ in range(10):
        round_()
    before = psutil.Process().memory_info().rss
    for _ in range(60):
        round_()
    assert psutil.Process().memory_info().rss - before < 40 << 20


def test_what_was_prefetched_is_freed(kafka, kafka_topic, kafka_produce, library):
    """Also what arrives after the partition was unassigned, and none of it reaches the consumer's next range.

    Else each partition that a worker has read would keep some megabytes of what lies behind its range.
    """
    topic = kafka_topic(partitions=2)
    kafka_produce(topic, ["x" * 100] * 40_000, partition=0, config={"linger.ms": 5, "batch.size": 16_384})
    kafka_produce(topic, ["y"], partition=1)
    length = library.client["rd_kafka_queue_length"]
    length.restype, length.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    # Fetches of 128 KB, so that one is always on its way.
    fetches = {"fetch.message.max.bytes": 128 << 10, "fetch.queue.backoff.ms": 1}
    consumer = ArrayConsumer(params_of(kafka).for_executor() | fetches, library)
    queue = library.client.rd_kafka_queue_get_partition(consumer._handle, topic.encode(), 0)

    def first_offset(partition, offset):
        consumer.assign(ClientPartition(topic, partition, offset))
        while True:
            with closing(consumer.poll(1, 10)) as chunk:
                assert [error.error.name() for error in chunk.take_errors()] in ([], ["_PARTITION_EOF"])
                if len(chunk) > 0:
                    return chunk.offset_of(0)

    for start in range(0, 20_000, 2000):
        assert first_offset(0, start) == start
        testing.wait_until(lambda: length(queue) > 0, "prefetched records", timeout=30)
        consumer.unassign()
        assert first_offset(1, 0) == 0  # of the same broker: what was on its way has arrived before
        assert length(queue) == 0

    library.client.rd_kafka_queue_destroy(queue)
    consumer.close()


def test_errors_come_out_of_the_array_and_records_stay(kafka, kafka_topic, kafka_produce, library):
    topic = kafka_topic()
    kafka_produce(topic, ["a", "b"])
    consumer = ArrayConsumer(params_of(kafka).for_executor(), library)
    consumer.assign(ClientPartition(topic, 0, 0))

    failures, offsets = [], []
    while not failures:
        chunk = consumer.poll(100, 10)
        failures += chunk.take_errors()
        offsets += [chunk.offset_of(place) for place in range(len(chunk))]
        chunk.close()

    assert offsets == [0, 1]
    assert [(failure.error.name(), failure.offset) for failure in failures] == [("_PARTITION_EOF", 2)]
    consumer.close()


def test_an_error_between_records_is_taken_out(kafka, kafka_topic, kafka_produce, library):
    topic = kafka_topic()
    kafka_produce(topic, list("abc"), config={"linger.ms": 20})
    consumer = ArrayConsumer(params_of(kafka).for_executor(), library)
    consumer.assign(ClientPartition(topic, 0, 0))
    while len(chunk := consumer.poll(3, 10)) < 3:
        chunk.close()
        consumer.assign(ClientPartition(topic, 0, 0))
    chunk._record(1).error = KafkaError.BROKER_NOT_AVAILABLE  # no broker gives one there on demand
    chunk.found = chunk._survey()

    failures = chunk.take_errors()

    assert [(failure.error.code(), failure.offset) for failure in failures] == [(KafkaError.BROKER_NOT_AVAILABLE, 1)]
    assert (chunk.texts_of("value"), chunk.last_offset()) == (["a", "c"], 2)
    chunk.close()
    consumer.close()


def test_a_topic_that_is_not_there_ends_no_process(kafka, library, caplog):
    """Its error comes by the partition's queue, as a callback that must not be Python's, and goes to the log."""
    params = params_of(kafka, **{"topic.metadata.propagation.max.ms": 0})
    consumer = ArrayConsumer(params.for_executor(), library)
    consumer.assign(ClientPartition("there-is-none", 0, 0))

    deadline = Deadline(30)
    while "there-is-none" not in caplog.text and not deadline.is_over():
        consumer.poll(100, 1).close()

    assert "there-is-none" in caplog.text
    consumer.close()


def test_what_librdkafka_logs_arrives_in_pythons_log(caplog):
    config = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    params = ClientParams.parse(config)
    with caplog.at_level(logging.DEBUG), pytest.raises(BrokerUnavailable, match="no record of"):
        list(read_batches(params, OffsetRange("t", 0, 0, 1), COLUMNS, ReadSettings(poll_seconds=1)))

    assert any(r.name == "kafka_direct.librdkafka" and "refused" in r.getMessage() for r in caplog.records)


def test_an_error_callback_is_left_to_confluent_kafka(kafka):
    consumer = build_fastest(params_of(kafka, error_cb=print).for_executor())
    assert isinstance(consumer, MessageConsumer)
    consumer.close()


def test_callables_are_called(kafka, kafka_topic, kafka_produce):
    """By confluent-kafka, in the reader's thread: librdkafka's own call for records must not meet them."""
    topic = kafka_topic()
    kafka_produce(topic, ["x" * 100] * 50_000, config={"linger.ms": 20})
    told, logger = [], logging.getLogger("test_callables_are_called")
    given = {"stats_cb": told.append, "statistics.interval.ms": 1, "logger": logger, "debug": "fetch"}
    while len(told) < 5:
        assert read(kafka, topic, 50_000, **given).num_rows == 50_000


def test_a_library_that_cannot_be_loaded_is_done_without(kafka, library, monkeypatch, caplog, tmp_path):
    elsewhere = type("Elsewhere", (), {"client": library.client, "loops": library.loops, "path": tmp_path / "no.so"})
    monkeypatch.setattr(worker_consumer, "load_librdkafka", elsewhere)

    consumer = build_fastest(params_of(kafka).for_executor())

    assert isinstance(consumer, MessageConsumer)
    assert "read slower" in caplog.text
    consumer.close()


def test_a_wrong_parameter_is_said_as_ever(kafka):
    with pytest.raises(ConfigError, match="not accepted by librdkafka"):
        build_fastest(params_of(kafka).for_executor() | {"fetch.wait.max.ms": -5})


def test_it_can_be_switched_off():
    ask = "from kafka_direct.broker.fetch.librdkafka import load_librdkafka as load; print(load() is None)"
    done = subprocess.run([sys.executable, "-c", ask], env=os.environ | {SWITCH: "0"}, capture_output=True, check=True)
    assert done.stdout.split() == [b"True"]
