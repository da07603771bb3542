"""The shipped list of librdkafka's keys agrees with the installed client."""

import logging

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, libversion

from kafka_direct.options.librdkafka_keys import (
    CALLBACK_KEYS,
    CONSUMER_CALLBACK_KEYS,
    CONSUMER_KEYS,
    HIDDEN_KEYS,
    LIBRDKAFKA_KEYS,
    PRODUCER_CALLBACK_KEYS,
    PRODUCER_KEYS,
    SHARED_KEYS,
)

UNKNOWN = "No such configuration property"
# Those that have come since the lowest client that is allowed; an older one refuses them itself.
NEWER = {
    "max.poll.records": (2, 15),
    "sasl.oauthbearer.sub.claim.name": (2, 14),
    "share.acknowledgement.mode": (2, 15),
}
INSTALLED = tuple(int(number) for number in libversion()[0].split(".")[:2])
KEYS = sorted(set(LIBRDKAFKA_KEYS) - set(PRODUCER_CALLBACK_KEYS))


def refusal(client, key):
    """Set one key to a value no key takes, and tell what the client says; it starts no thread when it refuses."""
    base = {"group.id": "g", "log_level": 0} if client is Consumer else {"log_level": 0}
    # The second key is wrong for certain: no client is ever made, whatever the first key accepts.
    try:
        client({**base, key: object(), "client.dns.lookup": "wrong"})
    except (KafkaException, TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(key)


def test_an_unknown_key_is_told_apart():
    """The probe of these tests sees the difference between an unknown key and a bad value."""
    assert UNKNOWN in refusal(Consumer, "no.such.key")
    assert UNKNOWN not in refusal(Consumer, "fetch.min.bytes")


@pytest.mark.parametrize("key", KEYS)
def test_the_installed_client_knows_each_key(key):
    """Every shipped key is one the installed confluent-kafka accepts."""
    if NEWER.get(key, INSTALLED) > INSTALLED:
        pytest.skip(f"this begins with librdkafka {NEWER[key]}, and this is {INSTALLED}")
    assert UNKNOWN not in refusal(Consumer, key)


@pytest.mark.parametrize("key", PRODUCER_CALLBACK_KEYS)
def test_the_installed_producer_knows_its_callbacks(key):
    """Keys of producers alone are known to producers."""
    assert UNKNOWN not in refusal(Producer, key)


def test_the_list_is_sorted_and_names_each_key_once():
    """A key stands in one group, and the whole is in order."""
    groups = (
        SHARED_KEYS,
        CONSUMER_KEYS,
        PRODUCER_KEYS,
        CALLBACK_KEYS,
        CONSUMER_CALLBACK_KEYS,
        PRODUCER_CALLBACK_KEYS,
        HIDDEN_KEYS,
    )
    listed = [key for group in groups for key in group]

    assert list(LIBRDKAFKA_KEYS) == sorted(set(listed))
    assert len(listed) == len(LIBRDKAFKA_KEYS)


def test_a_consumer_takes_pythons_logger():
    """`logger` is a key of confluent-kafka, whose value is no callable."""
    Consumer({"group.id": "g", "bootstrap.servers": "localhost:1", "logger": logging.getLogger("t")}).close()
