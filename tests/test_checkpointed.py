"""What Spark's checkpoints hold of this package: only plain data and public paths, and old ones load for ever."""

from __future__ import annotations

import importlib
import io
import json
import pickle
import pickletools
import re
import runpy
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.serializers import CloudPickleSerializer

import kafka_direct
import kafka_direct.compat
import kafka_direct.sinks
from kafka_direct import checkpointed, errors
from kafka_direct.checkpointed import revive
from kafka_direct.dstream.spec import StreamSpec
from kafka_direct.errors import KafkaDirectError
from kafka_direct.sinks import SqlSink

GOLDEN = Path(__file__).parent / "golden"
WRITER = runpy.run_path(str(GOLDEN / "write_golden.py"))
VALUES = WRITER["VALUES"]
FILES = sorted(path.stem for path in GOLDEN.glob("*.pickle"))

PATHS = {
    "kafka_direct": set(kafka_direct.__all__),
    "kafka_direct.compat": set(kafka_direct.compat.__all__),
    "kafka_direct.sinks": set(kafka_direct.sinks.__all__),
    "kafka_direct.errors": set(vars(errors)),
    "kafka_direct.checkpointed": {"revive"},
}


class Recorder(pickle.Unpickler):
    """Loads, and notes which names of this package it was told to look up."""

    def __init__(self, pickled):
        super().__init__(io.BytesIO(pickled))
        self.found = set()

    def find_class(self, module, name):
        if module.startswith("kafka_direct"):
            self.found.add((module, name))
        return super().find_class(module, name)


def names_in(pickled):
    recorder = Recorder(pickled)
    recorder.load()
    return recorder.found


def plain(thing):
    """What is kept of it, through and through: equal for two that mean the same."""
    if isinstance(thing, dict):
        return {name: plain(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [plain(value) for value in thing]
    reduced = thing.__reduce__() if type(thing).__module__.startswith("kafka_direct") else ()
    if reduced:
        return [plain(part) for part in reduced[1:]]
    # An identity is drawn anew for each sink and callback.
    return re.sub("[0-9a-f]{32}", "<identity>", repr(thing))


# -- what is written


@pytest.mark.parametrize("name", VALUES)
def test_a_checkpoint_names_stable_paths_only(name):
    """`revive` and public names: a pickle that names a module of ours is broken as soon as the module moves."""
    pickled = CloudPickleSerializer().dumps(VALUES[name])
    found = names_in(pickled)
    texts = {text for _, text, _ in pickletools.genops(pickled) if re.search("kafka_direct[./]", str(text))}

    assert sorted((module, member) for module, member in found if member not in PATHS.get(module, ())) == []
    assert texts <= PATHS.keys()  # nor a function by value, which has the name of its module and file


@pytest.mark.parametrize("package", ["kafka_direct", "kafka_direct.sinks"])
def test_public_names_pickle_by_the_path_that_users_import(package):
    """Wherever they are defined."""
    for name in PATHS[package]:
        thing = getattr(__import__(package, fromlist=[name]), name)
        if not hasattr(errors, name):  # those have their own public path
            assert (thing.__module__, name) == (package, name)
        assert names_in(CloudPickleSerializer().dumps(thing)) == {(thing.__module__, name)}


def test_every_kind_is_persisted_and_has_its_golden_file():
    """Of each version that it ever had."""
    versions = {f"{kind}-{n + 1}" for kind, (newest, _) in checkpointed._KINDS.items() for n in range(newest)}

    assert versions <= set(FILES)
    assert set(VALUES) <= set(FILES)


# -- what is read


def golden(name):
    return CloudPickleSerializer().loads((GOLDEN / f"{name}.pickle").read_bytes())


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith(("public", "error"))])
def test_an_old_checkpoint_means_what_it_meant(name):
    """Each golden file is loaded, and has all that it was written with."""
    assert type(golden(name)) is type(VALUES[name])
    assert plain(golden(name)) == plain(VALUES[name])


@pytest.mark.parametrize(("name", "spec"), [("stream-1", "SPEC"), ("stream-1-pattern", "LATER_SPEC")])
def test_an_old_stream_is_the_stream_that_it_was(name, spec):
    """Parameters, positions, rates and decoders; and its context finds it among those that were recovered."""
    from kafka_direct.dstream.process import process

    process.take_recovered()
    revived, meant = golden(name).spec, WRITER[spec]

    assert process.take_recovered() == [revived]
    assert process.take_recovered() == []
    for part in ("name", "input_id", "subscription", "params", "from_offsets", "min_rate"):
        assert getattr(revived, part) == getattr(meant, part)
    assert revived.elements.value_decoder is (json.loads if name == "stream-1" else kafka_direct.utf8_decoder)
    assert revived.max_rate == {WRITER["T0"]: 0, WRITER["T10"]: 2.5} or revived.max_rate(WRITER["T10"]) == 10


def test_old_values_are_the_values_that_they_were():
    """What state and errors hold by public path."""
    assert golden("public-1") == VALUES["public-1"]
    assert golden("public-1")["decoder"] is kafka_direct.utf8_decoder
    assert golden("error-1").losses == (WRITER["LOSS"],)
    assert str(golden("error-1")) == "records are gone"


def test_old_records_and_handlers_of_the_old_api():
    """A handler decodes as it did, and a stream stands for as many receivers."""
    handler, record = golden("message-handler-1"), golden("public-1-compat")["message"]

    assert vars(record) == vars(WRITER["MESSAGE"])
    assert handler(kafka_direct.KafkaMessage("orders", 0, 0, None, None, b"[1]", [])) == [1]
    assert golden("stream-1-receivers").spec.receivers == WRITER["RECEIVER_SPEC"].receivers


def test_old_sinks_and_functions_have_what_the_user_gave():
    """The connection, the output's name, the callback; of a sink's copies in one process all are one output."""
    sink, other = golden("sql-sink-1"), golden("sql-sink-1")

    assert sink.store._connect.args == ("results.db",)
    assert sink._output.claim(object) is other._output.claim(object)
    assert golden("callback-1") is golden("callback-1")
    assert golden("callback-1")("four") == 4
    assert golden("kafka-sink-1")._store == VALUES["kafka-sink-1"]._store
    assert golden("file-sink-1").path == "hdfs:///orders"


def test_a_literal_secret_is_not_resolved_on_the_way(monkeypatch):
    """References stay references."""
    monkeypatch.setenv("PASSWORD", "hunter2")

    assert b"hunter2" not in CloudPickleSerializer().dumps(VALUES["client-params-1"])


@pytest.mark.parametrize("kind", ["stream", "a kind of the future"])
def test_what_a_newer_version_wrote_is_refused(kind):
    """In one sentence that says what to do."""
    with pytest.raises(KafkaDirectError, match=r"a newer kafka_direct wrote; upgrade the package, or delete .*log"):
        revive(kind, 2, {})


# -- what users do with sinks


class Job:
    """A user's object whose method opens connections, and which holds the sink."""

    def __init__(self):
        self.sink = SqlSink(self.connect, "orders")

    def connect(self):
        return self


class TalkativeSink(SqlSink):
    """A user's subclass."""


def test_a_sink_may_be_held_by_what_connects_it():
    """The sink holds the method, that its object, and that the sink."""
    sink = CloudPickleSerializer().loads(CloudPickleSerializer().dumps(Job().sink))

    assert sink.store._connect().sink is sink


def test_a_subclass_stays_a_subclass_with_what_it_has():
    """It is the user's, and pickled as such."""
    sink = TalkativeSink(partial(list), "orders")
    sink.words = 5
    copy = CloudPickleSerializer().loads(CloudPickleSerializer().dumps(sink))

    assert (type(copy), copy.words, copy.store.name) == (TalkativeSink, 5, "orders")


def test_a_users_subclass_names_nothing_of_ours_but_its_base():
    """Our part of it is kept as our classes are, so that it is found when they move."""
    kept = Audited(VALUES["kafka-sink-1"]._store)
    pickled = CloudPickleSerializer().dumps(kept)
    found = {path for path in names_in(pickled) if path[0].startswith("kafka_direct")}

    assert found == {("kafka_direct.checkpointed", "revive"), ("kafka_direct.checkpointed", "revive_subclass")}
    assert pickle.loads(pickled)._store == kept._store
    assert pickle.loads(pickled).audit == "yes"


class Audited(kafka_direct.sinks.KafkaSink):
    """A user's sink."""

    def __init__(self, store):
        super().__init__({"bootstrap.servers": "b:9092"}, store.topic, store.name)
        self.audit = "yes"


def test_a_start_keeps_the_topics_it_was_reached_in():
    """A checkpoint of before has none."""
    spec = WRITER["SPEC"]
    known = replace(spec, from_topic_ids={WRITER["T0"]: "abc"})

    assert StreamSpec.of_state(known.state()).from_topic_ids == {WRITER["T0"]: "abc"}
    assert golden("stream-1").spec.from_topic_ids == {}


def test_what_was_made_before_its_module_was_reloaded():
    """A notebook reloads a module under a stream that runs, and its next checkpoint is written as before."""
    made = SqlSink(print, name="saved")
    before = made.__reduce__()
    home = sys.modules["kafka_direct.sinks.sql.sink"]
    kept, exported = home.SqlSink, kafka_direct.sinks.sql
    try:
        exported.SqlSink = importlib.reload(home).SqlSink

        assert made.__reduce__()[:2] == before[:2]
    finally:
        home.SqlSink = exported.SqlSink = kept
