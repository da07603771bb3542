"""How the texts that users write are read: booleans, numbers, durations, and words that are nearly right.

Every door reads with these functions: data source options, SparkConf, kafkaParams and the command line. `name` is what
the text was given for, such as "option minPartitions"; each refusal shows it, the text and the remedy.
"""

from __future__ import annotations

import difflib
import re
from fractions import Fraction
from typing import TYPE_CHECKING

from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BOOLEANS = {"true": True, "false": False}
UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}  # largest first, as positions are written
_ALL_UNITS_MS: dict[str, int | Fraction] = {**UNITS_MS, "min": 60_000, "us": Fraction(1, 1000)}  # those of Spark

_NUMBER = r"[0-9]{1,19}(?:\.[0-9]{1,9})?"
_PART = re.compile(rf"({_NUMBER})\s*(us|ms|min|[dhms])\s*")


def parse_boolean(name: str, text: str, words: Mapping[str, bool] = BOOLEANS) -> bool:
    """A boolean in any case.

    >>> parse_boolean("option failOnDataLoss", "False")
    False
    """
    value = words.get(text.strip().lower())
    if value is None:
        raise ConfigError(f"{name} is {text!r}; give true or false.")
    return value


def parse_whole(name: str, text: str, *, least: int | None = None) -> int:
    """A whole number, from `least` on, that a Long of Java can hold.

    >>> parse_whole("option minPartitions", "8", least=1)
    8
    """
    is_whole = re.fullmatch("[+-]?[0-9]{1,19}", text.strip()) is not None and -(2**63) <= int(text) < 2**63
    if not is_whole or (least is not None and int(text) < least):
        raise ConfigError(f"{name} is {text!r}; give a whole number{'' if least is None else f' from {least} on'}.")
    return int(text)


def parse_number(name: str, text: str) -> float:
    """A number with or without a fraction."""
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give a number.") from None


def parse_duration_ms(name: str, text: str, *, bare: str | None) -> Fraction:
    """Milliseconds, exactly. `bare` is the unit of a number that has none; None refuses such a number.

    >>> int(parse_duration_ms("option maxTriggerDelay", "1h30m", bare="ms"))
    5400000
    >>> int(parse_duration_ms("option maxTriggerDelay", "10", bare="ms")), int(parse_duration_ms("x", "10", bare="s"))
    (10, 10000)
    """
    folded = text.strip().lower()
    if bare is not None and re.fullmatch(_NUMBER, folded) is not None:
        folded += bare
    if re.fullmatch(f"(?:{_PART.pattern})+", folded) is None:
        raise ConfigError(f"{name} is {text!r}; give a time such as 500ms, 10s, 15m or 1h.")
    return sum((Fraction(count) * _ALL_UNITS_MS[unit] for count, unit in _PART.findall(folded)), Fraction(0))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant.

    >>> nearest("Bootstrap_Server", ["group.id", "bootstrap.servers"])
    'bootstrap.servers'
    """
    by_folded = {_fold(each): each for each in known}
    near = difflib.get_close_matches(_fold(word), by_folded, n=1)
    return by_folded[near[0]] if near else None


def unknown(what: str, word: str, known: Iterable[str], otherwise: str) -> ConfigError:
    """The refusal of a word that nobody reads; `otherwise` is the remedy if no known word is near.

    >>> print(unknown("the command has no topic", "ordres", ["orders"], "list them first."))
    the command has no topic 'ordres'; did you mean orders?
    """
    # The word's value is not shown: it may be a password under a misspelt name.
    near = nearest(word, known)
    return ConfigError(f"{what} {word!r}; {otherwise if near is None else f'did you mean {near}?'}")


def _fold(word: str) -> str:
    return word.lower().replace("_", ".")
