"""What the commands do with their flags: take several at once, and name one in an error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    F = TypeVar("F", bound=Callable[..., Any])


def add_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator made of several `click.option`. `--help` lists them in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@contextmanager
def prefixed(flag: str, end: str = "") -> Iterator[None]:
    """Put the flag in front of a ConfigError that is raised inside, and `end` behind it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{flag}: {error}{end}") from None
