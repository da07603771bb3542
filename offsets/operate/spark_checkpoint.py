"""`SparkCheckpoint`: the files in which Spark keeps the program of a StreamingContext, beside our log.

Spark recovers functions, windows and states from the newest `checkpoint-<ms>`. Without such a file the program's own
code counts, and our log has the position.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka_direct.errors import ConfigError
from kafka_direct.offsets.store.files import LogFiles
from kafka_direct.offsets.store.store import locate

from .checkpoint import find_places
from .stream_place import StreamPlace

if TYPE_CHECKING:
    from kafka_direct.offsets.store.store import Locate

_PROGRAM = re.compile(r"checkpoint-([0-9]+)(?:\.bk)?")
_HALF_WRITTEN = "temp"  # Spark writes a checkpoint under this name, and renames it


class SparkCheckpoint:
    """The directory of `ssc.checkpoint(...)`, a path or a URI that `locate` knows, with the log of a direct stream.

    Raises:
        ConfigError: no direct stream has its log there, so nothing would keep the position.
    """

    def __init__(self, checkpoint: str, *, locate: Locate = locate) -> None:
        self._root = LogFiles.open(checkpoint, locate=locate)
        places = find_places(checkpoint, locate=locate)
        self.streams = [place for place in places if isinstance(place, StreamPlace)]
        if not self.streams:
            raise ConfigError(
                f"{self.path} is the checkpoint of a query, which keeps no functions: they come from the program's "
                "file at each start."
            )

    @property
    def path(self) -> str:
        return self._root.folder

    def files(self) -> list[str]:
        """The names of the files that hold the program, oldest first."""
        names = [name for name in self._root.names() if _PROGRAM.fullmatch(name) or name == _HALF_WRITTEN]
        return sorted(names, key=_age)

    def running(self) -> str | None:
        """That a driver runs, and what to do, without a full stop. None if none has said so lately."""
        return next((running for stream in self.streams if (running := stream.running()) is not None), None)

    def forget(self) -> None:
        """Delete the files. If that is broken off, the newest is still there, and Spark recovers as before."""
        for name in self.files():
            self._root.delete(name)


def _age(name: str) -> tuple[int, bool]:
    program = _PROGRAM.fullmatch(name)
    # Of one time the spare copy comes first.
    return (-1 if program is None else int(program[1]), not name.endswith(".bk"))
