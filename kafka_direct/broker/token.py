"""`TokenCallback`: an `oauth_cb` that keeps why it gave no token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class TokenCallback:
    """confluent-kafka waits for the first token for ten seconds, and then says only that there was none."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.failure = ""
        self._function = function

    def __call__(self, config: str) -> Any:
        try:
            token = self._function(config)
            _check(token)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}".rstrip(".")
            raise
        self.failure = ""
        return token


def _check(token: Any) -> None:
    """confluent-kafka takes no other, and does not say why. The message shows nothing of the token."""
    match token:
        case (str(), int() | float() as expires, *_):
            if expires <= time.time():
                raise ValueError("its token has expired already; give the time in seconds since 1970")
        case _:
            raise TypeError("it must return (token, seconds since 1970 when it expires)")
