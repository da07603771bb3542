"""`TokenCallback`: an `oauth_cb` that keeps why it gave no token."""

from __future__ import annotations

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
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}".rstrip(".")
            raise
        self.failure = ""
        return token
