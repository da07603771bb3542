"""Which outputs a sink can count the batches of, and what is said of the others."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kafka_direct.dstream.compute import takes_time
from kafka_direct.dstream.lineage import Lineage
from kafka_direct.errors import ArgumentTypeError, ConfigError

EACH_BATCH = Lineage(streams=("orders",), has_other_inputs=False, slide_ms=2000, interval_ms=2000)


def test_an_output_of_each_batch_of_one_stream_is_that_streams():
    """And is so after a recovery."""
    assert EACH_BATCH.stream() == "orders"
    assert Lineage.of_state(EACH_BATCH.state()) == EACH_BATCH


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"streams": ("clicks", "orders")}, "joins the direct streams clicks and orders, .* one createDirectStream"),
        ({"has_other_inputs": True}, "inputs beside direct stream orders, .* save what comes from orders alone"),
        ({"slide_ms": 6000}, "every 6000 ms and the batches are 2000 ms, .* slide by 2000 ms"),
    ],
)
def test_another_output_is_refused_in_a_short_sentence(other, said):
    """With what it is made of, the numbers, and what to do."""
    with pytest.raises(ConfigError) as told:
        replace(EACH_BATCH, **other).stream()
    assert re.search(said, str(told.value))
    assert len(str(told.value).split()) <= 35


class Job:
    def save(self, rdd):
        """A method as an output."""


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda rdd: None, False),
        (lambda rdd, sink=None: None, False),
        (lambda time, rdd: None, True),
        (lambda *both: None, True),
        (Job().save, False),
    ],
)
def test_a_function_takes_the_rdd_or_the_time_too(function, wanted):
    """Whatever PySpark makes of defaults and methods."""
    assert takes_time(function) is wanted


def test_a_function_of_something_else_is_refused():
    """When it is given, not at the first batch."""
    with pytest.raises(ArgumentTypeError, match=r"must take \(rdd\) or \(time, rdd\)"):
        takes_time(lambda: None)
