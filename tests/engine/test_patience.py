"""How patient a stream is with brokers that are away."""

from __future__ import annotations

import pytest

from kafka_direct.engine import Patience
from kafka_direct.errors import BrokerUnavailable


def asked(answers, retries=3):
    """What comes of a question that is answered so; None stands for no answer."""
    patience = Patience(retries=retries, pause_seconds=0)
    left = iter(answers)

    def question():
        if (answer := next(left)) is None:
            raise BrokerUnavailable("no answer", servers="b:9092")
        return answer

    return patience, lambda: patience.ask(question)


def test_brokers_that_have_answered_are_asked_again():
    """They are asked as often as the option says: an error would end the stream."""
    _, ask = asked([1, None, None, None, 2])
    assert [ask(), ask()] == [1, 2]

    _, ask = asked([1, None, None, 2], retries=1)
    assert ask() == 1
    with pytest.raises(BrokerUnavailable):
        ask()


def test_each_question_that_is_repeated_is_said(caplog):
    """With how many are left, so that nobody takes the wait for a standstill."""
    _, ask = asked([1, None, None, 2])
    ask()
    ask()

    assert [message.partition(": ")[0] for message in caplog.messages] == [
        "the brokers did not answer; asking again, 3 times at most",
        "the brokers did not answer; asking again, 2 times at most",
    ]


def test_brokers_that_never_answered_are_not():
    """A wrong address is reported soon."""
    _, ask = asked([None, 1])

    with pytest.raises(BrokerUnavailable):
        ask()


def test_a_stream_that_stops_asks_no_more():
    """Spark's stop waits for the batch that is being planned."""
    patience, ask = asked([1, None, 2])
    ask()
    patience.stop()

    with pytest.raises(BrokerUnavailable):
        ask()
