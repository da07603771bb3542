"""`call_within`: a caller goes on, whatever its call does."""

import subprocess
import sys
import threading

import pytest
from confluent_kafka import KafkaError

from kafka_direct.broker.write.client_call import Hung, call_within
from kafka_direct.broker.write.client_health import ClientHealth


def test_what_a_call_returns_or_raises_is_the_callers():
    """As if there were no other thread."""
    assert call_within(10, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        call_within(10, lambda: 1 / 0)


def test_a_call_that_does_not_return_is_left():
    """It is told apart from one that fails."""
    end = threading.Event()
    with pytest.raises(Hung):
        call_within(0, end.wait, grace=0.05)
    end.set()


HANGS = """
import sys, threading
from kafka_direct.broker.write import transactional_producer as module
from kafka_direct.errors import BrokerUnavailable
from kafka_direct.options import ClientParams

class Client:
    def __init__(self, config, **_): pass
    def list_topics(self, *_, **__): pass
    def init_transactions(self, seconds): pass
    def begin_transaction(self): pass
    def send_offsets_to_transaction(self, *_): threading.Event().wait()
    def abort_transaction(self, seconds): print("touched again")
    def __del__(self): print("destroyed")

module.Producer, module.ANSWER_SECONDS = Client, 0
sys.modules["kafka_direct.broker.write.client_call"].call_within.__kwdefaults__["grace"] = 0.05
producer = module.TransactionalProducer(ClientParams.parse({"bootstrap.servers": "b:9092"}), "w")
try:
    producer.begin([], None, "g")
except BrokerUnavailable as error:
    print(error)
producer.abort()
"""


def test_a_client_that_hangs_is_never_touched_again():
    """The error says what to expect; nothing waits for the call, nor is the client destroyed, when the process ends."""
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == (
        "sending offsets in the transaction of w has not returned from the client in 0 s and 5 more, with Kafka at "
        "b:9092; nothing of it is visible: Spark runs a failed task again, and a failed batch runs again when the job "
        "is started again.\n"
    )


def test_a_client_that_has_reported_an_error_is_not_well():
    """The user's own error_cb is called, too."""
    seen = []
    health, own = ClientHealth(), ClientHealth(seen.append)
    assert health.is_good
    error = KafkaError(KafkaError._TRANSPORT)
    for each in (health, own):
        each(error)

    assert not health.is_good
    assert not own.is_good
    assert seen == [error]
