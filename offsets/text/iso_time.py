"""Times in the forms of Kafka's own tools: `--to-datetime 2026-11-18T10:00:00.000`, `--by-duration P1DT2H`. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.model.position import Ago, Since
from kafka_direct.parse import parse_duration_ms

from .position_grammar import parse_single

_DURATION = re.compile(
    r"P(?=.)([0-9]{1,9}D)?(?:T(?=.)([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(?:[.,][0-9]{1,9})?S)?)?",
    re.IGNORECASE,
)


def parse_datetime(text: str) -> Since:
    """The first record at or after a time. A time without a zone is UTC, as in Kafka's tools.

    >>> print(parse_datetime("2026-11-18T10:00:00.000"), parse_datetime("2026-11-18T10:00:00+01:00"))
    @2026-11-18T10:00:00Z @2026-11-18T09:00:00Z

    Raises:
        ConfigError: the text is not a time, or the time is before 1970.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(f"{text!r} is not a time; write it as 2026-11-18T10:00:00 (UTC) or with +01:00.") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since = parse_single("@" + aware.isoformat())
    assert isinstance(since, Since), "the grammar reads @ as a time"
    return since


def parse_duration(text: str) -> Ago:
    """The first record at or after a time ago, which is given as an ISO 8601 duration.

    >>> print(parse_duration("PT10M"), parse_duration("P1DT2H"), parse_duration("PT0.5S"))
    -10m -1d2h -500ms

    Raises:
        ConfigError: the text is not a duration in days, hours, minutes and seconds.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"{text!r} is not a duration; write it as PT10M, PT2H30M or P1DT2H (days, hours, minutes, seconds)."
        )
    parts = "".join(match.groups(default="")).replace(",", ".")
    return Ago(round(parse_duration_ms("duration", parts, bare=None)))
