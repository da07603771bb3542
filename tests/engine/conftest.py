"""The contract of `Brokers` here is tested on the fake; integration_tests/conftest.py has these fixtures on Kafka."""

import pytest

from kafka_direct.testing import FakeKafka


@pytest.fixture
def ground():
    """A cluster whose topics the test can change."""
    return FakeKafka()


@pytest.fixture
def guarded_ground():
    """A cluster that can also hide topics."""
    return FakeKafka()


@pytest.fixture
def nobody():
    """A port onto brokers that do not answer."""
    kafka = FakeKafka()
    kafka.go_away()
    return kafka.brokers()
