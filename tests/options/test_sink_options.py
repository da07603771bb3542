"""The options of writing through the data source."""

import doctest

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.options import SinkOptions, sink_options

BROKER = {"kafka.bootstrap.servers": "b:9092"}


def test_examples_are_true():
    """Every doctest of the module gives what it shows."""
    assert doctest.testmod(sink_options).failed == 0


def test_what_spark_adds_is_no_mistake():
    """A stream's own options come along with the sink's."""
    parsed = SinkOptions.parse(BROKER | {"checkpointlocation": "/tmp/c", "includeHeaders": "true"})

    assert parsed.topic is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "t"}, "no option 'subscribe'"),
        ({"topic": " "}, "option topic is empty"),
        ({"includeHeaders": "1"}, "option includeHeaders is '1'; give true or false"),
        ({"kafka.key.serializer": "x"}, "option kafka.key.serializer is not supported: write BINARY or STRING columns"),
        ({"kafka.transactional.id": "x"}, "transactional.id is chosen here"),
        ({"kafka.bootstrap.servers": ""}, "option kafka.bootstrap.servers is missing"),
    ],
)
def test_what_is_refused(options, text):
    """One sentence that names the option and what to do."""
    with pytest.raises(ConfigError) as caught:
        SinkOptions.parse(BROKER | options)
    assert text in str(caught.value)


def test_an_output_that_is_written_once():
    """It has a name, and a topic of its own."""
    options = BROKER | {"topic": "t", "transactional": "copy"}

    assert SinkOptions.parse(options, is_query=True).transactional == "copy"
    assert SinkOptions.parse(BROKER).transactional is None


@pytest.mark.parametrize(
    ("options", "is_query", "text"),
    [
        ({"topic": "t", "transactional": " "}, True, "option transactional is empty"),
        ({"topic": "t", "transactional": "copy"}, False, "a batch write has no batch id"),
        ({"transactional": "copy"}, True, "option transactional needs the option topic"),
        ({"topic": "t", "transactional": "copy", "kafka.acks": "1"}, True, "needs an idempotent producer"),
    ],
)
def test_what_excludes_writing_once(options, is_query, text):
    """Said before any data moves."""
    with pytest.raises(ConfigError, match=text):
        SinkOptions.parse(BROKER | options, is_query=is_query)
