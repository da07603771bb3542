"""Patterns over time: how many records/second arrive, or can be processed, at each second of a simulated stream.

Grammar: `5000` is constant; `1000,30s:8000,60s:1000` changes to 8000 at 30 s and back at 60 s; `sine:1000..8000/60s`
swings between the two once a minute. Times are `500ms`, `30s`, `2m`, `1h`, or bare seconds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Protocol

from kafka_direct.errors import ConfigError
from kafka_direct.parse import parse_duration_ms

_SINE = re.compile(r"sine:(?P<low>[\d.]+)\.\.(?P<high>[\d.]+)/(?P<period>[\w.]+)")


class Pattern(Protocol):
    """A rate in records/second over time."""

    @property
    def lowest(self) -> float:
        """The lowest rate it ever has."""

    def until(self, seconds: float) -> float:
        """Records from second 0 to `seconds`: the area under the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A rate that changes at given seconds; the first step starts at second 0.

    >>> Steps(steps=((0.0, 10.0), (60.0, 500.0))).until(61)
    1100.0
    """

    steps: tuple[tuple[float, float], ...]

    @property
    def lowest(self) -> float:
        return min(rate for _, rate in self.steps)

    def until(self, seconds: float) -> float:
        ends = [start for start, _ in self.steps[1:]] + [math.inf]
        return sum(
            rate * max(0.0, min(seconds, end) - start) for (start, rate), end in zip(self.steps, ends, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sine:
    """A rate that swings between `low` and `high` once in `period` seconds, starting at the middle and rising.

    >>> Sine(low=0.0, high=200.0, period=60.0).until(60)
    6000.0
    """

    low: float
    high: float
    period: float

    @property
    def lowest(self) -> float:
        return self.low

    def until(self, seconds: float) -> float:
        turn = 2 * math.pi / self.period
        swing = (self.high - self.low) / 2
        return (self.low + swing) * seconds + swing / turn * (1 - math.cos(turn * seconds))


def parse_pattern(text: str) -> Pattern:
    """The pattern a text describes.

    Raises:
        ConfigError: shows the three forms.

    >>> parse_pattern("1000,30s:8000").until(31)
    38000.0
    >>> parse_pattern("sine:1000..8000/1m").lowest
    1000.0
    """
    try:
        return _parse_sine(text) if text.startswith("sine:") else _parse_steps(text)
    except (ConfigError, ValueError):
        raise ConfigError(
            f"The pattern {text!r} cannot be read: write 5000, or 1000,30s:8000,60s:1000 for steps at rising times, or "
            "sine:1000..8000/60s."
        ) from None


def _parse_steps(text: str) -> Steps:
    first, *later = text.split(",")
    steps = [(0.0, _rate(first))]
    for step in later:
        at, _, rate = step.partition(":")
        start = _seconds(at)
        if start <= steps[-1][0]:
            raise ValueError(step)
        steps.append((start, _rate(rate)))
    return Steps(steps=tuple(steps))


def _parse_sine(text: str) -> Sine:
    found = _SINE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    low, high, period = _rate(found["low"]), _rate(found["high"]), _seconds(found["period"])
    if low > high or period == 0:
        raise ValueError(text)
    return Sine(low=low, high=high, period=period)


def _seconds(text: str) -> float:
    return float(parse_duration_ms("time", text, bare="s") / 1000)


def _rate(text: str) -> float:
    rate = float(text)
    if not math.isfinite(rate) or rate < 0:
        raise ValueError(text)
    return rate
