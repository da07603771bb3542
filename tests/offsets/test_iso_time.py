"""Times as Kafka's tools take them."""

import pytest

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import Ago, Since
from kafka_direct.offsets.text.iso_time import parse_datetime, parse_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01.250", 1250),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01T01:00:01.000+0100", 1000),
        ("1970-01-01T00:00:01Z", 1000),
        (" 1970-01-02 ", 86_400_000),
    ],
)
def test_datetimes(text, ms):
    """Without a zone a time is UTC, as in Kafka's tools."""
    assert parse_datetime(text) == Since(ms)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00", "1969-12-31T23:59:59", "10:00"])
def test_no_datetimes(text):
    """What is no time, or before Kafka's, is refused."""
    with pytest.raises(ConfigError):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT10M", 600_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 86_400_000 + 7_200_000 + 180_000 + 4500),
        ("pt0s", 0),
        ("PT0,001S", 1),
    ],
)
def test_durations(text, ms):
    """Days, hours, minutes, seconds and parts of them."""
    assert parse_duration(text) == Ago(ms)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "10m", "-PT10M", "P1M", "P1Y", "P1W", "PT1.5H", "PT10M5"])
def test_no_durations(text):
    """Months are no fixed time; the sentence shows the form."""
    with pytest.raises(ConfigError, match="is not a duration; write it as PT10M"):
        parse_duration(text)
