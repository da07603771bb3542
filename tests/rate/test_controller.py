"""`RateController`: one batch measures, two may be in flight."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_direct.errors import ConfigError
from kafka_direct.rate import PidGains, PIDRateEstimator, RateController, RateSettings, Workload, simulate
from kafka_direct.rate.estimator import ESTIMATORS
from kafka_direct.rate.gains import BACKPRESSURE
from kafka_direct.rate.settings import INITIAL_RATE, RATE_ESTIMATOR


def controller(interval_ms=1000, initial_rate=500.0):
    return RateController(PIDRateEstimator(interval_ms, 1.0, 0.2, 0.0, 100), initial_rate=initial_rate)


def test_default_initial_rate_is_bounded():
    """A stream that sets no initial rate starts at 1000 records/s, not with its whole backlog."""
    assert RateController(PIDRateEstimator(1000, 1.0, 0.2, 0.0, 100)).budget(0) == 1000


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_refuses_an_initial_rate_of_nothing(rate):
    """An initial rate of 0 would never measure anything: it is refused with the key."""
    with pytest.raises(ConfigError, match=r"backpressure\.initialRate is"):
        controller(initial_rate=rate)


def test_cold_start_sends_one_batch_ahead():
    """Until a batch has been measured, batches planned behind the first one take nothing."""
    fresh = controller()

    assert fresh.budget(0) == 500
    assert fresh.budget(1) == 0


def test_cold_start_tries_again_after_failure():
    """When the first batch fails it leaves the flight unreported, and the next one may measure."""
    fresh = controller()

    assert [fresh.budget(in_flight) for in_flight in (0, 500, 0)] == [500, 0, 500]


def test_cold_start_waits_for_records():
    """Batches without records measure nothing: the initial rate stays."""
    fresh = controller()
    fresh.batch_finished(1000, 0, 50, 0)

    assert fresh.budget(0) == 500


def test_first_batch_is_used_at_once():
    """The speed of the first batch is the rate of the next one, where Spark waits for a second batch."""
    seeded = controller()
    seeded.batch_finished(1100, 500, 100, 0)

    assert seeded.rate == 5000
    assert seeded.budget(0) == 5000


def test_first_speed_is_floored():
    """A first batch of a few records does not push the rate below the floor."""
    seeded = controller()
    seeded.batch_finished(1100, 1, 1000, 0)

    assert seeded.rate == 100


def test_rate_is_the_estimate():
    """From the second batch on the rate is the estimator's."""
    seeded = controller()
    seeded.batch_finished(1000, 1000, 1000, 0)
    seeded.batch_finished(2000, 800, 1000, 500)

    assert seeded.rate == 800 - 0.2 * 400


@pytest.mark.parametrize(("in_flight", "budget"), [(0, 1000), (2000, 1000), (3000, 500), (4000, 0), (99_999, 0)])
def test_queue_shrinks_the_budget(in_flight, budget):
    """One interval's records may wait in full; beyond that the budget shrinks, and two intervals leave nothing."""
    seeded = controller(interval_ms=2000)
    seeded.batch_finished(1000, 1000, 1000, 0)

    assert seeded.budget(in_flight) == budget


def test_nothing_is_nothing():
    """A budget of nothing sets every partition to 0, floors and caps notwithstanding."""
    assert controller().limit({"a": 10, "b": 0}, in_flight=1, max_rate=5, min_rate=1000) == {"a": 0, "b": 0}


def test_limit_shares_the_budget():
    """With a budget, partitions share it by lag within caps and floors."""
    limits = controller(interval_ms=2000).limit({"a": 900, "b": 100}, in_flight=0, max_rate=300, min_rate=1)

    assert limits == {"a": 600, "b": 100}


def test_the_stream_has_a_cap_as_a_whole():
    """Which partitions share by lag; a smaller budget wins."""
    limit = partial(controller().limit, {"a": 900, "b": 100}, in_flight=0, max_rate=0, min_rate=1)

    assert limit(max_total=10) == {"a": 9, "b": 1}
    assert limit(max_total=10_000) == limit(max_total=None) == limit()


def test_from_settings():
    """Settings give interval, gains and initial rate; an initial rate that is not set becomes 1000."""
    made = RateController.from_settings(batch_interval_ms=2000, initial_rate=70, gains=PidGains(min_rate=30))
    assert made.budget(0) == 70

    made.batch_finished(1000, 1, 1000, 0)
    assert made.rate == 30
    assert made.budget(90) == 15

    plain = RateController.from_settings(batch_interval_ms=1000)
    assert plain.budget(0) == 1000
    plain.batch_finished(1000, 1, 1000, 0)
    assert plain.rate == 100


class Halving:
    """An estimator of a user's own: half of the speed."""

    def __init__(self, batch_interval_ms, gains):
        self.batch_interval_ms, self.gains, self.latest_rate = batch_interval_ms, gains, None

    def compute(self, _time_ms, records, processing_delay_ms, _scheduling_delay_ms):
        self.latest_rate = records / processing_delay_ms * 1000 / 2
        return self.latest_rate


def test_a_new_estimator_is_one_line(monkeypatch):
    """What the registry names can be set by Spark's key, and plans real batches and simulated ones."""
    monkeypatch.setitem(ESTIMATORS, "halving", Halving)
    conf = {BACKPRESSURE + "enabled": "true", RATE_ESTIMATOR: "halving", INITIAL_RATE: "100"}
    settings = RateSettings.from_conf(conf)
    made = RateController.from_settings(batch_interval_ms=1000, estimator=settings.estimator)
    made.batch_finished(1000, 5000, 1000, 0)

    assert made.budget(0) == 2500
    for behaviour in ("kafka-direct", "spark"):
        rows = simulate(Workload(batches=10, backlog=100_000, overhead_ms=0), settings, behaviour=behaviour)
        assert rows[-1].rate == pytest.approx(5000, rel=0.01)


def test_an_estimator_that_is_not_there():
    """Is refused with those that are."""
    with pytest.raises(ConfigError, match=r"estimator is 'fuzzy', but .* give pid"):
        RateController.from_settings(batch_interval_ms=1000, estimator="fuzzy")


def test_pickles():
    """What a controller has learned survives pickling."""
    seeded = controller()
    seeded.batch_finished(1000, 5000, 1000, 0)

    assert pickle.loads(pickle.dumps(seeded)).rate == 5000


batches = st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**6)))


@given(history=batches, in_flight=st.integers(0, 10**8), interval_ms=st.sampled_from([50, 1000, 60_000]))
def test_law_two_intervals_in_flight(history, in_flight, interval_ms):
    """A batch never brings what is in flight above two intervals of work, nor is it larger than one."""
    tried = controller(interval_ms)
    for number, batch in enumerate(history):
        tried.batch_finished(number * interval_ms, *batch)
    taken, work = tried.budget(in_flight) * interval_ms / 1000, tried.rate * interval_ms / 1000

    assert 0 <= taken <= work * (1 + 1e-9)
    assert taken == 0 or in_flight + taken <= 2 * work * (1 + 1e-9)


@given(history=batches)
def test_law_nothing_starves(history):
    """With nothing in flight there is always a budget."""
    tried = controller()
    for number, batch in enumerate(history):
        tried.batch_finished(number * 1000, *batch)

    assert tried.budget(0) > 0
