"""Why an `oauth_cb` gave no token is known, also when it raised nothing."""

import time

import pytest

from kafka_direct.broker.token import TokenCallback


@pytest.mark.parametrize("given", [None, "token", ("token", "soon"), ("token",), (b"token", 1e12), object()])
def test_what_is_no_token_is_told(given):
    """confluent-kafka says only that there was none within ten seconds."""
    callback = TokenCallback(lambda _: given)

    with pytest.raises(TypeError):
        callback("")
    assert callback.failure == "TypeError: it must return (token, seconds since 1970 when it expires)"


def test_an_expired_token_is_told_without_the_token():
    """Librdkafka refuses it without a word."""
    callback = TokenCallback(lambda _: ("hunter2", time.time() - 1))

    with pytest.raises(ValueError, match="has expired already"):
        callback("")
    assert "hunter2" not in callback.failure


@pytest.mark.parametrize("more", [(), ("principal",), ("principal", {"extension": "x"})])
def test_a_token_is_given_on(more):
    """With all that confluent-kafka takes."""
    token = ("token", time.time() + 60, *more)

    assert TokenCallback(lambda _: token)("") == token
