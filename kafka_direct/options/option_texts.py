"""`OptionTexts`: the options of a data source as text, read one by one by name.

Spark hands option names over in small letters, so names are compared in small letters; messages show Spark's spelling.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_direct.errors import ConfigError
from kafka_direct.parse import parse_boolean, parse_duration_ms, parse_number, parse_whole, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

D = TypeVar("D")


class OptionTexts:
    """Options by name, in any case.

    >>> texts = OptionTexts({"maxTriggerDelay": "15m", "minpartitions": "8"})
    >>> texts.duration_ms("maxTriggerDelay", 0), texts.count("minPartitions", None), texts.count("maxRecords", None)
    (900000, 8, None)
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {key.lower(): value for key, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def text(self, name: str) -> str | None:
        return self._texts.get(name.lower())

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The options whose names begin with the prefix, without it."""
        return {key.removeprefix(prefix): text for key, text in self._texts.items() if key.startswith(prefix)}

    def one_of(self, names: Iterable[str]) -> str | None:
        """The first of these names that is given."""
        return next((name for name in names if name in self), None)

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        return default if text is None else parse_boolean(f"option {name}", text)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices, the first by default."""
        text = choices[0] if (given := self.text(name)) is None else given.strip().lower()
        if text not in choices:
            raise ConfigError(f"option {name} is {given!r}; give {' or '.join(choices)}.")
        return text

    def count(self, name: str, default: D, *, least: int = 1) -> int | D:
        """A whole number from `least` on."""
        text = self.text(name)
        return default if text is None else parse_whole(f"option {name}", text, least=least)

    def number(self, name: str) -> float | None:
        text = self.text(name)
        return None if text is None else parse_number(f"option {name}", text)

    def duration_ms(self, name: str, default: int) -> int:
        """A time such as 500ms, 10s, 15m or 1h; a bare number is in milliseconds, as in Spark."""
        text = self.text(name)
        return default if text is None else int(parse_duration_ms(f"option {name}", text, bare="ms"))

    def json(self, name: str, example: str) -> Any:
        """A JSON object."""
        text = self.text(name) or ""
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ConfigError(f"option {name} is {text!r}; give JSON such as {example}.")
        return value

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse an option that nobody reads."""
        names = {name.lower() for name in known}
        for key in self._texts:
            if key not in names and not key.startswith("kafka."):
                listed = f"its options are {', '.join(sorted(known))}, and those of the client begin with kafka."
                raise unknown("the data source kafka_direct has no option", key, known, listed)
