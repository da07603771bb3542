"""`LogFiles`: small files in one folder of any pyarrow file system, each written whole or not at all.

On a local disk a file is written under a hidden name, synced, and linked to its name. So a reader never sees half a
file, a file survives a power cut, and of two writers of one name exactly one wins. Object stores show a file only after
its upload is complete, so the file is written directly. Other file systems (HDFS) rename atomically, so the file is
written under a hidden name and renamed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import uuid4

from pyarrow import fs

from kafka_direct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRITES_APPEAR_WHOLE = {"s3", "gcs", "abfs"}
_LOCAL = re.compile("file:(?://)?(?=/(?!/))")
_URI_CHARACTERS = "%:/?#[]@!$&'()*+,;="
_SCHEME = re.compile("([A-Za-z][A-Za-z0-9+.-]*):/")


class LogFiles:
    """The files of one folder, by name. Hidden names (a leading dot) are not listed."""

    def __init__(self, filesystem: fs.FileSystem, folder: str) -> None:
        self._fs = filesystem
        self.folder = folder

    @classmethod
    def open(cls, uri: str, *below: str) -> LogFiles:
        """The folder `below` a path or URI in Spark's form (`/x`, `file:/x`, `s3a://bucket/x`, `hdfs://…`).

        Spark does not escape a URI: a space, `#` or `%20` in a `file:` URI is part of the folder's name.

        Raises:
            ConfigError: pyarrow has no file system for the URI.
        """
        filesystem, path = _locate(uri)
        return cls(filesystem, "/".join((path.rstrip("/"), *below)))

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def names(self) -> Iterator[str]:
        """The names in the folder, in no order. A subfolder ends with a slash. Empty if the folder does not exist."""
        try:
            infos = self._fs.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        except FileNotFoundError:  # pyarrow looks twice, and raises if a driver makes the folder in between
            return
        for info in infos:
            if not info.base_name.startswith("."):
                yield info.base_name + ("/" if info.type == fs.FileType.Directory else "")

    def read(self, name: str) -> str:
        with self._fs.open_input_stream(self.path(name)) as stream:
            return str(stream.read().decode("utf-8"))

    def modified(self, name: str) -> float | None:
        """When a file was last written, in seconds by the file system's clock. None if there is no such file."""
        info = self._fs.get_file_info(self.path(name))
        return None if info.mtime_ns is None or not info.is_file else info.mtime_ns / 1e9

    def create(self, name: str, text: str) -> bool:
        """Write a new file. If the name is taken, write nothing and return False."""
        if isinstance(self._fs, fs.LocalFileSystem):
            return self._create_local(name, text)
        if self._fs.get_file_info(self.path(name)).type != fs.FileType.NotFound:
            return False
        self.replace(name, text)
        return True

    def replace(self, name: str, text: str) -> None:
        """Write a file, or overwrite it."""
        if self._fs.type_name in _WRITES_APPEAR_WHOLE:
            self._write(self.path(name), text)
        elif isinstance(self._fs, fs.LocalFileSystem):
            self._hidden_local(name, text).replace(self.path(name))
            self._sync_folder()
        else:
            hidden = self.path(_hidden(name))
            self._write(hidden, text)
            self._fs.move(hidden, self.path(name))

    def delete(self, name: str) -> None:
        self._fs.delete_file(self.path(name))

    def _write(self, path: str, text: str) -> None:
        self._fs.create_dir(self.folder, recursive=True)
        with self._fs.open_output_stream(path) as stream:
            stream.write(text.encode("utf-8"))

    def _create_local(self, name: str, text: str) -> bool:
        hidden = self._hidden_local(name, text)
        try:
            os.link(hidden, self.path(name))
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        self._sync_folder()
        return True

    def _hidden_local(self, name: str, text: str) -> Path:
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        hidden = Path(self.folder, _hidden(name))
        with hidden.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return hidden

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _hidden(name: str) -> str:
    # A random name, because drivers in containers can have the same process id.
    return f".{name}.{uuid4().hex}.tmp"


def _locate(uri: str) -> tuple[fs.FileSystem, str]:
    if local := _LOCAL.match(uri):
        return fs.LocalFileSystem(), uri[local.end() :]
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return fs.LocalFileSystem(), os.path.abspath(uri)  # noqa: PTH100  resolve() would follow links
    pyarrow_scheme = {"s3a": "s3", "s3n": "s3"}.get(scheme[1], scheme[1])
    try:
        filesystem, path = fs.FileSystem.from_uri(quote(pyarrow_scheme + uri[scheme.end(1) :], safe=_URI_CHARACTERS))
    except ValueError:
        # The message does not show the URI, which may contain a key.
        raise ConfigError(
            f"The checkpoint directory is a {scheme[1]}: URI that pyarrow has no file system for; give a local path, "
            "or a URI of s3, gs, abfs or hdfs."
        ) from None
    return filesystem, path
