"""Which of librdkafka's errors mean that a producer was fenced, and when one may be used again."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_direct.broker.write import transactional_producer
from kafka_direct.broker.write.delivery import Undelivered
from kafka_direct.broker.write.transactional_producer import QUICK_SECONDS, TransactionalProducer
from kafka_direct.errors import BrokerError, BrokerUnavailable, Fenced
from kafka_direct.options import ClientParams


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
    params = ClientParams.parse({"bootstrap.servers": "b:1"})
    producer = SimpleNamespace(_writer="w", _params=params, _undelivered=Undelivered(), _written=set())
    error = TransactionalProducer._translated(producer, KafkaError(code, fatal=is_fatal), "committing")

    assert type(error) is kind


class Client:
    """A client whose commits end as told, one after the other."""

    def __init__(self, commits=(), seconds=0.0):
        self.commits, self.seconds, self.reports = list(commits), seconds, []

    def __call__(self, config, **_):
        self.report = config["error_cb"]
        return self

    def poll(self, _):
        for error in self.reports:
            self.report(error)

    def commit_transaction(self, _):
        CLOCK.now += self.seconds
        if self.commits and (error := self.commits.pop(0)):
            raise KafkaException(error)

    def list_topics(self, *_, **__):
        pass

    def init_transactions(self, _):
        pass

    def begin_transaction(self):
        pass

    def send_offsets_to_transaction(self, *_):
        pass


CLOCK = SimpleNamespace(now=0.0)


@pytest.mark.parametrize(
    ("client", "reports", "is_kept"),
    [
        (Client(), [], True),
        (Client(), [KafkaError(KafkaError._TRANSPORT, "Disconnected")], False),
        (Client([KafkaError(KafkaError._TIMED_OUT, retriable=True), None]), [], False),
        (Client(seconds=QUICK_SECONDS), [], False),
        (Client(seconds=1.0), [], False),  # a request may have timed out, and have been sent again
    ],
    ids=["all was well", "a connection was lost", "the commit was tried twice", "a slow commit", "a repeated request"],
)
def test_a_producer_is_kept_only_if_nothing_of_it_is_under_way(client, reports, is_kept, monkeypatch):
    """A commit that arrives late would commit a part of the next transaction, which has the same epoch."""
    monkeypatch.setattr(transactional_producer, "Producer", client)
    monkeypatch.setattr(transactional_producer.time, "monotonic", lambda: CLOCK.now)
    params = {"bootstrap.servers": "broker:9092"} | ({"socket.timeout.ms": 2000} if client.seconds == 1 else {})
    params = ClientParams.parse(params)
    producer = TransactionalProducer(params, "w")
    producer.begin([], None, "g")
    client.reports = reports
    producer.commit()

    assert producer.may_be_kept() == is_kept


@pytest.mark.parametrize(
    ("code", "is_fatal", "kind"), [(KafkaError._FATAL, True, Fenced), (KafkaError._STATE, False, BrokerError)]
)
def test_an_error_of_beginning_is_told_as_any_other(code, is_fatal, kind, monkeypatch):
    """A kept producer that was fenced while nobody used it learns it there; the caller then makes a new one."""

    def refuse():
        raise KafkaException(KafkaError(code, fatal=is_fatal))

    client = Client()
    client.begin_transaction = refuse
    monkeypatch.setattr(transactional_producer, "Producer", client)
    producer = TransactionalProducer(ClientParams.parse({"bootstrap.servers": "broker:9092"}), "w")

    with pytest.raises(kind, match=r"the transaction of w|w has a newer producer"):
        producer.begin([], None, "g")
