"""Output for any terminal: results go to stdout, messages to stderr.

A character that the terminal's encoding lacks is spelled out. Control characters are replaced.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_SECONDS = 3.0

_SPELLED = {"→": "->", "…": "..."}


def say(result: str) -> None:
    click.echo(printable(result, sys.stdout))


def tell(news: str) -> None:
    click.echo(printable(news, sys.stderr), err=True)


@contextmanager
def telling_if_slow(news: str) -> Iterator[None]:
    """Say what is waited for, if it takes long."""
    timer = Timer(SLOW_SECONDS, tell, [news])
    timer.daemon = True  # Ctrl-C does not wait for it
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def printable(text: str, stream: TextIO) -> str:
    # Other people choose the names of groups and clients. The terminal would obey an escape sequence in a name.
    text = "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for character, spelled in _SPELLED.items():
            text = text.replace(character, spelled)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text
