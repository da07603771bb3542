"""When a batch is worth its while."""

from kafka_direct.rate import BatchGate


def test_enough_opens_at_once():
    """From min_offsets on nothing waits."""
    gate = BatchGate(min_offsets=10, max_delay_ms=1000)
    gate.opens(0, 0)

    assert not gate.opens(9, 1)
    assert gate.opens(10, 2)


def test_the_delay_counts_from_the_last_batch():
    """A batch with too little runs once the delay is over, and the next waits for as long again."""
    gate = BatchGate(min_offsets=10, max_delay_ms=1000)

    assert gate.opens(1, 5000)
    assert not gate.opens(1, 5999)
    assert gate.opens(1, 6000)
    assert not gate.opens(1, 6999)
