"""`Callback`: a function of the user's as a part of a configuration that is compared."""

import pytest
from pyspark import cloudpickle

from kafka_direct.options import ClientParams
from kafka_direct.options.callback import holding_errors

SERVERS = {"bootstrap.servers": "b"}


def travelled(params):
    return cloudpickle.loads(cloudpickle.dumps(params))


@pytest.mark.parametrize("make", [lambda: lambda _: None, lambda: print, lambda: [].append])
def test_a_function_is_itself_wherever_it_travels(make):
    """Parameters are equal to their copies in workers, and to those that are made of the same function again."""
    function = make()
    params = ClientParams.parse(SERVERS | {"stats_cb": function})

    assert travelled(params) == travelled(params) == params
    assert hash(travelled(params)) == hash(params)
    assert ClientParams.parse(SERVERS | {"stats_cb": function}) == params


def test_another_function_is_another():
    """Also one of the same code: it may hold other values."""
    one, other = (ClientParams.parse(SERVERS | {"stats_cb": lambda _, n=n: n}) for n in range(2))

    assert one != other
    assert travelled(one) != travelled(other)


def test_the_newest_copy_is_called():
    """What a client was given calls the copy that came last, with what its driver knew then."""
    token = {"is": "old"}
    params = ClientParams.parse(SERVERS | {"oauth_cb": lambda _: token["is"]})
    early = cloudpickle.dumps(params)
    token["is"] = "new"
    late = cloudpickle.dumps(params)
    del params

    kept = cloudpickle.loads(early)
    given_to_client = kept.resolved()["oauth_cb"]
    assert given_to_client(None) == "old"
    assert cloudpickle.loads(late) == kept
    assert given_to_client(None) == "new"


def test_what_cannot_be_looked_up_is_equal_to_its_copies():
    """A callable without a hash is taken."""

    class Unhashable:
        __hash__ = None

        def __call__(self, _): ...

    params = ClientParams.parse(SERVERS | {"stats_cb": Unhashable()})

    assert travelled(params) == params


def test_errors_wait_until_the_clients_call_has_returned():
    """Raised in it they would take messages along. What is asked, such as for a token, is told that it failed."""

    def fail(_):
        raise RuntimeError("of the user's")

    def refuse(_):
        raise RuntimeError("no token")

    params = ClientParams.parse(SERVERS | {"stats_cb": fail, "oauth_cb": refuse})
    stats, oauth = (dict(travelled(params).entries)[key] for key in ("stats_cb", "oauth_cb"))

    with pytest.raises(RuntimeError, match="of the user's"):
        stats("")
    with holding_errors() as raised:
        assert stats("") is None
        with pytest.raises(RuntimeError, match="no token"):
            oauth("")
    assert [str(error) for error in raised] == ["of the user's"]
    with pytest.raises(RuntimeError, match="of the user's"):
        stats("")
