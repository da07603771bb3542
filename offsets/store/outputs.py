"""`LogOutputs`: where the outputs of a stream have begun, as the stream's log knows it.

An output keeps its progress itself. If it has none in a partition, it is new there, or what keeps it was taken back to
an earlier time: a database that was restored, or failed over to a replica that lacked the last commits. Only somebody
else can tell the two apart. So the log notes a beginning before the output does.

Each file has one beginning: `<output>.<batch id>`, with the output's name as in a URL. Its text is that of
a batch: the partitions that began with it, where they began, the ids of their topics, and what was moved.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from kafka_direct.errors import CorruptLog

from .codec import UNREADABLE, decode_batch, encode_batch

if TYPE_CHECKING:
    from kafka_direct.offsets.model.batch import Batch

    from .files import LogFiles


LONGEST = 200  # of a file's name, what stands for the output


class LogOutputs:
    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._known: dict[str, dict[str, Batch]] = {}  # by output and file

    def begun(self, output: str) -> list[Batch]:
        """The beginnings of an output, the oldest first."""
        if output not in self._known:
            start = f"{_quoted(output)}."
            names = [name for name in self._files.names() if name.startswith(start)]
            self._known[output] = {name: self._read(name) for name in names}
        return sorted(self._known[output].values(), key=lambda batch: batch.id)

    def begin(self, output: str, batch: Batch) -> None:
        """Note that an output begins with the ranges of a batch."""
        name = f"{_quoted(output)}.{batch.id}"
        self._files.create(name, encode_batch(batch))
        self._known.setdefault(output, {})[name] = self._read(name)

    def _read(self, name: str) -> Batch:
        try:
            return decode_batch(self._files.read(name))
        except UNREADABLE as cause:
            path = self._files.shown(name)
            raise CorruptLog(
                f"{path} is torn or was not written by kafka_direct ({cause}); move it away.", path=path
            ) from cause


def _quoted(output: str) -> str:
    """As a name of a file: without a dot, which ends it. Of a long one the end is a hash: file systems allow 255 bytes.

    >>> _quoted("shop/orders.v2")
    'shop%2Forders%2Ev2'
    >>> len(_quoted("/" * 200))
    200
    """
    quoted = quote(output, safe="").replace(".", "%2E")
    return quoted if len(quoted) <= LONGEST else quoted[: LONGEST - 64] + sha256(output.encode()).hexdigest()
