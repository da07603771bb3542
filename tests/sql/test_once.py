"""What a task notes of the rows that it writes, and what a replay with others is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.broker.write.entries import Entry
from kafka_direct.errors import OutOfOrder

pytest.importorskip("pyspark.sql.datasource", reason="Python data sources begin with PySpark 4.0")

from kafka_direct.sql.once import Attempt, Rows, compare

ATTEMPT = Attempt("q", "r", 7, 2)

parts = st.none() | st.binary(max_size=5) | st.text(max_size=5)
rows = st.lists(
    st.fixed_dictionaries(
        {}, optional={"key": parts.filter(lambda part: part is not None), "value": st.binary(max_size=5)}
    ),
    max_size=6,
)


def noted(given):
    counted = Rows(("t", dict(row)) for row in given)
    list(counted.records())
    return counted.note()


def written(given, batch_id=7):
    return Entry(batch_id + 1, {"batchId": batch_id, "run": "before", **noted(given)})


def test_a_row_becomes_a_record():
    """With its topic, as the producer takes it."""
    counted = Rows([("t", {"key": "k", "value": b"v"})])

    assert list(counted.records()) == [{"key": "k", "value": b"v", "topic": "t"}]
    assert counted.note()["rows"] == 1


@given(rows, st.randoms())
def test_law_the_order_of_rows_does_not_matter(given_rows, random):
    """After a shuffle Spark gives a task the same rows in another order."""
    shuffled = random.sample(given_rows, len(given_rows))

    assert noted(shuffled) == noted(given_rows)


@pytest.mark.parametrize(
    "other",
    [
        {"value": b"w"},
        {"key": b"v"},
        {"key": b"", "value": b"v"},
        {"value": b"v", "partition": 1},
        {"value": b"v", "headers": [("a", b"1")]},
        {"value": b"v", "headers": [("a", None)]},
    ],
)
def test_another_row_is_seen(other):
    """Whatever of it is another."""
    assert noted([other]) != noted([{"value": b"v"}])


def test_text_is_its_bytes():
    """A column may be STRING in one run and BINARY in the next."""
    assert noted([{"value": "ä"}]) == noted([{"value": "ä".encode()}])


def test_a_replay_is_compared_with_what_was_written():
    """The same rows pass; others, more or fewer are an error with the numbers."""
    one, two = [{"value": b"a"}], [{"value": b"a"}, {"value": b"b"}]
    compare(ATTEMPT, [("t", dict(row)) for row in two], written(two))

    with pytest.raises(OutOfOrder, match="task 2 of batch 7 wrote 2 rows before, and now has 1 rows: some rows may"):
        compare(ATTEMPT, [("t", dict(row)) for row in one], written(two))
    with pytest.raises(OutOfOrder, match="wrote 1 rows before, and now has 1 others"):
        compare(ATTEMPT, [("t", {"value": b"c"})], written(one))


def test_a_task_that_comes_late_is_let_go():
    """A later batch is written already, so a frozen driver's rows do not matter."""
    compare(ATTEMPT, [("t", {"value": b"c"})], written([], batch_id=8))
