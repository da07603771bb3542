"""How patient the driver's side is with brokers that are away."""

from __future__ import annotations

import pytest

from kafka_direct.errors import BrokerUnavailable
from kafka_direct.options import SourceOptions
from kafka_direct.sql.questions import Questions


def asked(answers, **options):
    """What comes of a question that is answered so; an answer of None is none."""
    given = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "fetchOffset.retryIntervalMs": "0", **options}
    questions = Questions(SourceOptions.parse(given, "stream"))
    left = iter(answers)

    def ask():
        if (answer := next(left)) is None:
            raise BrokerUnavailable("nobody answers", servers="b:9092")
        return answer

    return lambda: questions._patiently(ask)


def test_brokers_that_have_answered_are_asked_again():
    """As often as the option says: an error would end the query."""
    ask = asked([1, None, None, None, 2])
    assert [ask(), ask()] == [1, 2]

    ask = asked([1, None, None, 2], **{"fetchOffset.numRetries": "1"})
    assert ask() == 1
    with pytest.raises(BrokerUnavailable):
        ask()


def test_brokers_that_never_answered_are_not():
    """A wrong address should be told soon."""
    with pytest.raises(BrokerUnavailable):
        asked([None, 1])()
