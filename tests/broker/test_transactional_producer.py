"""Which of librdkafka's errors mean that a producer was fenced."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from kafka_direct.broker.write.delivery import Undelivered
from kafka_direct.broker.write.transactional_producer import TransactionalProducer
from kafka_direct.errors import BrokerError, BrokerUnavailable, Fenced


@pytest.mark.parametrize(
    ("code", "is_fatal", "kind"),
    [
        (KafkaError._FENCED, True, Fenced),
        (KafkaError._FATAL, True, Fenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, False, Fenced),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, BrokerError),
        (KafkaError._TIMED_OUT, False, BrokerUnavailable),
    ],
)
def test_only_a_newer_producer_fences(code, is_fatal, kind):
    """A right that is missing is fatal too, and no other driver's doing."""
    producer = SimpleNamespace(_writer="w", _servers="broker:9092", _undelivered=Undelivered())
    error = TransactionalProducer._translated(producer, KafkaError(code, fatal=is_fatal), "committing")

    assert type(error) is kind
