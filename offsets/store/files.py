"""`LogFiles`: the small files of one folder, by name. Each is there whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from .store import locate, public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .store import Locate, Store


class LogFiles:
    """The files of one folder. Hidden names (a leading dot) are not listed."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self.folder = folder

    @classmethod
    def open(cls, uri: str, *below: str, locate: Locate = locate) -> LogFiles:
        """The folder `below` a path or URI in Spark's form (`/x`, `file:/x`, `s3a://bucket/x`, `hdfs://…`).

        Raises:
            ConfigError: there is no file system for the URI.
        """
        location = locate(uri)
        return cls(location.store, "/".join((location.path.rstrip("/"), *below)))

    def below(self, *folders: str) -> LogFiles:
        """A folder in this one."""
        return LogFiles(self._store, "/".join((self.folder, *folders)))

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def shown(self, name: str) -> str:
        """The path for an error: without a password."""
        return public(self.path(name))

    def names(self) -> Iterator[str]:
        """The names in the folder, in no order. A subfolder ends with a slash. Empty if the folder does not exist."""
        with suppress(FileNotFoundError):
            for name in self._store.entries(self.folder):
                if not name.startswith("."):
                    yield name

    def read(self, name: str) -> str:
        return self._store.read(self.path(name))

    def modified(self, name: str) -> float | None:
        """When a file was last written, in seconds by the store's clock. None if there is no such file."""
        try:
            return self._store.modified(self.path(name))
        except FileNotFoundError:
            return None

    def create(self, name: str, text: str) -> str | None:
        """Write a new file. If the name is taken, write nothing, and return the text that is there.

        The text is ours if an earlier call wrote it and its answer was lost.
        """
        while not self._store.create(self.path(name), text):
            with suppress(FileNotFoundError):  # it was removed in between
                return self.read(name)
        return None

    def replace(self, name: str, text: str) -> None:
        """Write a file, or overwrite it."""
        self._store.replace(self.path(name), text)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with suppress(FileNotFoundError):
            self._store.delete(self.path(name))

    def caution(self) -> str | None:
        """What the store cannot promise, in a sentence."""
        return self._store.caution(self.folder)
