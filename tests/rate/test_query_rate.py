"""`QueryRate`: what it tries where no sign shows whether Spark waited. `test_simulated_query` has the rest."""

import pytest

from kafka_direct.rate import QueryRate, TriggerWait
from kafka_direct.rate.query_rate import MANY, TOO_ALIKE


def test_batches_that_are_all_alike_are_tried_with_many_records():
    """It may be a wait that no question shows: a batch of three times as many records then takes as long."""
    rate = QueryRate(target_seconds=2, initial_rate=1000, wait=TriggerWait(target_seconds=2))
    before = []
    for number in range(TOO_ALIKE + 1):  # the first one has none before it
        before.append(rate.rate)
        rate.asked(1795000001.55 + 3.1 * number, 3.1, 500, is_cut=True)

    assert before[-1] == pytest.approx(500 / 3.1)
    assert rate.rate == pytest.approx(MANY * 500 / 2)
