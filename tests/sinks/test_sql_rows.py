"""`Rows`: what a task has read can be read again, unless it is too much."""

import pytest

from kafka_direct.sinks.sql.rows import KEPT, Rows


def test_each_time_all_elements_come():
    """Also if the time before ended in the middle, and each element is fetched once."""
    fetched = []
    rows = Rows(n for n in range(5) if fetched.append(n) is None)

    first = iter(rows)
    assert [next(first), next(first)] == [0, 1]
    assert fetched == [0, 1]  # no more than is asked for
    assert list(rows) == list(rows) == [0, 1, 2, 3, 4]
    assert fetched == [0, 1, 2, 3, 4]
    assert rows.can_repeat()


def test_too_many_are_not_kept():
    """A partition may be larger than a worker's memory: then Spark has to run the task again."""
    rows = Rows(range(KEPT + 5))
    part = iter(rows)
    for _ in range(KEPT):
        next(part)
    assert rows.can_repeat()

    assert list(part) == list(range(KEPT, KEPT + 5))
    assert not rows.can_repeat()
    assert rows._read == []


def test_elements_that_raise_are_not_read_again():
    """What raised may leave elements out the next time: the task fails, and Spark runs it again."""

    def broken():
        yield 1
        raise ValueError("a lookup that came second")

    rows = Rows(broken())
    with pytest.raises(ValueError, match="came second"):
        list(rows)
    assert not rows.can_repeat()
