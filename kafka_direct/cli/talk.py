"""Results to stdout, talk to stderr, on any terminal.

What its encoding lacks is spelled; control characters are not sent.
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
    # Names of groups and clients are other people's: an escape sequence in one would be obeyed by the terminal.
    text = "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for character, spelled in _SPELLED.items():
            text = text.replace(character, spelled)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text
