"""Checks of numbers. A refusal is one sentence that names the key, the value and the remedy."""

from __future__ import annotations

import math
from numbers import Real
from typing import SupportsFloat, TypeVar

from kafka_direct.errors import ArgumentTypeError, ConfigError

N = TypeVar("N", bound=SupportsFloat)


def at_least_zero(key: str, value: N, remedy: str) -> N:
    """The value itself when it is a finite number of 0 or more; NaN, infinities and booleans are refused.

    Raises:
        ConfigError: says what `remedy` says, for example "use 0 for no cap".

    >>> at_least_zero("maxRatePerPartition", 0, "use 0 for no cap")
    0
    >>> at_least_zero("maxRatePerPartition", -5, "use 0 for no cap")
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: maxRatePerPartition is -5, but it must be a number of 0 or more: use 0 for no cap.
    """
    if not _is_number(key, value, remedy) or float(value) < 0:
        raise ConfigError(f"{key} is {value}, but it must be a number of 0 or more: {remedy}.")
    return value


def above_zero(key: str, value: N, remedy: str) -> N:
    """The value itself when it is a finite number greater than 0.

    >>> above_zero("batch interval", 0.5, "give milliseconds")
    0.5
    >>> above_zero("batch interval", 0, "give milliseconds")
    Traceback (most recent call last):
    kafka_direct.errors.ConfigError: batch interval is 0, but it must be a number greater than 0: give milliseconds.
    """
    if not _is_number(key, value, remedy) or float(value) <= 0:
        raise ConfigError(f"{key} is {value}, but it must be a number greater than 0: {remedy}.")
    return value


def _is_number(key: str, value: SupportsFloat, remedy: str) -> bool:
    # numbers.Real, not (int, float): numpy's integers are not ints. True is an int, but nobody means 1 by it.
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ArgumentTypeError(f"{key} is {value!r}, which is not a number: {remedy}.")
    return math.isfinite(value)
