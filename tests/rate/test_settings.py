"""`RateSettings`: Spark's keys and defaults, refused early."""

from __future__ import annotations

import dataclasses

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.rate import PidGains, RateSettings

B = "spark.streaming.backpressure."
K = "spark.streaming.kafka."
R = "spark.streaming.receiver."


def test_defaults_are_sparks():
    """An empty configuration gives Spark's defaults."""
    assert RateSettings.from_conf({}) == RateSettings(
        backpressure=False,
        initial_rate=None,
        estimator="pid",
        gains=PidGains(proportional=1.0, integral=0.2, derivative=0.0, min_rate=100.0),
        max_rate_per_partition=0,
        min_rate_per_partition=1,
    )


def test_reads_every_key():
    """Every key reaches its field."""
    conf = {
        B + "enabled": "TRUE",
        B + "initialRate": "500",
        B + "rateEstimator": "pid",
        B + "pid.proportional": "0.9",
        B + "pid.integral": "0.1",
        B + "pid.derived": "0.05",
        B + "pid.minRate": "10",
        K + "maxRatePerPartition": "7",
        K + "minRatePerPartition": "3",
        R + "maxRate": "900",
    }

    assert RateSettings.from_conf(conf) == RateSettings(
        backpressure=True,
        initial_rate=500,
        gains=PidGains(proportional=0.9, integral=0.1, derivative=0.05, min_rate=10.0),
        max_rate_per_partition=7,
        min_rate_per_partition=3,
        receiver_max_rate=900,
    )


def test_passes_over_other_keys():
    """Keys of other parts of Spark are not ours to refuse."""
    assert RateSettings.from_conf({"spark.app.name": "x", K + "consumer.poll.ms": "5"}) == RateSettings()


def test_initial_rate_of_zero_is_not_set():
    """Spark's own default of 0 means that no initial rate is set."""
    assert RateSettings.from_conf({B + "initialRate": "0"}).initial_rate is None


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_receivers_rate_of_zero_or_less_is_no_cap(text):
    """As Spark documents it."""
    assert RateSettings.from_conf({R + "maxRate": text}).receiver_max_rate == 0


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        (B + "enabled", "yes", "true or false"),
        (B + "initialRate", "fast", "whole number"),
        (B + "initialRate", "-5", "leave it out"),
        (B + "rateEstimator", "fuzzy", "there is no such estimator; give pid"),
        (B + "pid.proportional", "much", "give a number"),
        (B + "pid.proportional", "-1", "Spark's default is 1.0"),
        (B + "pid.integral", "nan", "Spark's default is 0.2"),
        (B + "pid.derived", "inf", "Spark's default is 0.0"),
        (B + "pid.minRate", "0", "Spark's default is 100"),
        (K + "maxRatePerPartition", "10.5", "whole number"),
        (K + "maxRatePerPartition", "-1", "use 0 for no cap"),
        (K + "minRatePerPartition", "-1", "use 0 for no floor"),
        (R + "maxRate", "10/s", "whole number"),
    ],
)
def test_refuses_with_key_value_and_remedy(key, value, remedy):
    """A bad value or misspelt key is refused in a sentence that names key, value and remedy."""
    with pytest.raises(ConfigError, match=remedy) as refusal:
        RateSettings.from_conf({key: value})

    assert str(refusal.value).startswith(f"{key} is ")
    assert value in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("pid.derivative", "pid.derived"), ("enable", "enabled"), ("Enabled", "enabled"), ("initialrate", "initialRate")],
)
def test_a_misspelt_key_is_refused_with_the_one_that_was_meant(key, meant):
    """Spark would ignore it without a word."""
    with pytest.raises(ConfigError, match=rf"unknown key '{B}{key}'; did you mean {B}{meant}\?"):
        RateSettings.from_conf({B + key: "1"})


def test_frozen():
    """Settings do not change after they are made."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        RateSettings().backpressure = True
