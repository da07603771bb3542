"""`Given`: the options of a data source as text, read one by one by name.

Spark hands option names over in small letters, so a name is told by them; messages show it as Spark writes it.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DURATION_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")


class Given:
    """Options by name, in any case.

    >>> given = Given({"maxTriggerDelay": "15m", "minpartitions": "8"})
    >>> given.duration_ms("maxTriggerDelay"), given.count("minPartitions")
    (900000, 8)
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._texts = {key.lower(): value for key, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._texts

    def text(self, name: str) -> str | None:
        return self._texts.get(name.lower())

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, without the prefix."""
        return {key.removeprefix(prefix): text for key, text in self._texts.items() if key.startswith(prefix)}

    def one_of(self, names: Iterable[str]) -> str | None:
        """The first of these names that is given."""
        return next((name for name in names if name in self), None)

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise ConfigError(f"option {name} is {text!r}; give true or false.")
        return text.strip().lower() == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices, the first by default."""
        text = choices[0] if (given := self.text(name)) is None else given.strip().lower()
        if text not in choices:
            raise ConfigError(f"option {name} is {given!r}; give {' or '.join(choices)}.")
        return text

    def count(self, name: str, *, least: int = 1) -> int | None:
        """A whole number from `least` on; None if it is not given."""
        text = self.text(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d{1,18}", text.strip()) or int(text) < least:
            raise ConfigError(f"option {name} is {text!r}; give a whole number from {least} on.")
        return int(text)

    def number(self, name: str) -> float | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"option {name} is {text!r}; give a number.") from None

    def duration_ms(self, name: str) -> int | None:
        """A time such as 500ms, 10s, 15m or 1h; a bare number is in milliseconds, as in Spark."""
        text = self.text(name)
        if text is None:
            return None
        match = _DURATION.fullmatch(text.strip().lower())
        if match is None or (match[2] or "ms") not in DURATION_MS:
            raise ConfigError(f"option {name} is {text!r}; give a time such as 500ms, 10s, 15m or 1h.")
        return int(int(match[1]) * DURATION_MS[match[2] or "ms"])

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
        """Refuse an option that nobody reads, with the nearest one that somebody does."""
        names = {name.lower(): name for name in known}
        for key in self._texts:
            if key not in names and not key.startswith("kafka."):
                near = difflib.get_close_matches(key, names, n=1)
                listed = f"its options are {', '.join(sorted(known))}, and those of the client begin with kafka."
                hint = f"did you mean {names[near[0]]}?" if near else listed
                # Without its value: it may be a password whose name lacks the prefix.
                raise ConfigError(f"the data source kafka_direct has no option {key!r}; {hint}")
