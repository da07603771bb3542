"""Output for any terminal: results go to stdout, messages to stderr.

A character that the terminal's encoding lacks is spelled out. Control characters are replaced.
"""

from __future__ import annotations

import sys
from typing import TextIO

import click

_SPELLED = {"→": "->", "…": "..."}


def say(result: str) -> None:
    click.echo(printable(result, sys.stdout))


def tell(news: str) -> None:
    click.echo(printable(news, sys.stderr), err=True)


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
