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
