"""`Rows`: the elements of a task, which can be read again from the first one if they are not too many.

A task whose transaction came second does it again. Elements that are fetched while they are written are there once, so
the first ones are kept. If there are more, the task fails, and Spark runs it again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEPT = 10_000


class Rows:
    """Each iteration begins at the first element.

    >>> rows = Rows("abc")
    >>> next(iter(rows)), list(rows), rows.can_repeat()
    ('a', ['a', 'b', 'c'], True)
    >>> short = Rows("abc", kept=2)
    >>> list(short), short.can_repeat()
    (['a', 'b', 'c'], False)
    """

    def __init__(self, elements: Iterable[Any], kept: int = KEPT) -> None:
        self._rest = iter(elements)
        self._kept = kept
        self._read: list[Any] = []
        self._is_whole = True

    def can_repeat(self) -> bool:
        """Whether all that was read is still here."""
        return self._is_whole

    def read_ahead(self) -> None:
        """Read as many as are kept. Done before a transaction holds locks, it keeps no other one waiting."""
        for _ in islice(self, self._kept):
            pass

    def __iter__(self) -> Iterator[Any]:
        yield from tuple(self._read)
        while True:
            try:
                element = next(self._rest)
            except StopIteration:
                return
            except BaseException:
                self._is_whole = False  # what raises once may leave elements out the next time
                raise
            if self._is_whole and len(self._read) < self._kept:
                self._read.append(element)
            else:
                self._is_whole = False
                self._read.clear()
            yield element
