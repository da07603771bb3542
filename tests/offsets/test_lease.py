"""`Lease`: how long a driver's word is good."""

import pytest

from kafka_direct.offsets.store.lease import Lease, decode_lease, encode_lease


@pytest.mark.parametrize(("interval_ms", "valid_ms"), [(500, 60_000), (20_000, 60_000), (600_000, 1_800_000)])
def test_it_outlives_a_late_batch(interval_ms, valid_ms):
    """It is good for three intervals, and never for less than a driver waits for brokers."""
    lease = Lease.of_interval(interval_ms, now_ms=7)

    assert lease == Lease(at_ms=7, valid_ms=valid_ms)


def test_it_is_said_again_long_before_it_is_over():
    """A driver with short batches does not write it for each of them."""
    lease = Lease.of_interval(500, now_ms=0)

    assert not lease.is_due(9_999)
    assert lease.is_due(10_000)


def test_it_survives_its_text():
    """What was written is what is read."""
    lease = Lease(at_ms=5, valid_ms=7)

    assert decode_lease(encode_lease(lease)) == lease


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version":2,"atMs":1,"validMs":1}', '{"version":1}', "null"])
def test_another_text_is_no_lease(text):
    """A torn file is told from a lease."""
    with pytest.raises((ValueError, TypeError, LookupError)):
        decode_lease(text)
