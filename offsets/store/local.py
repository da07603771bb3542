"""`LocalStore`: the files of a local disk, or of what is mounted like one.

A new file is written under a hidden name, synced, and linked to its name. So a reader never sees half a file, a file
survives a power cut, and of two writers of one name exactly one wins. Some mounts have no links (FAT, many FUSE). There
a file is renamed to its name after a look, and `caution` says so.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kafka_direct.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL = re.compile("file:(?://)?(?=/(?!/))")
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:/")
# A full disk, and what a mount over the network says while its server is away.
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT}
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def local_path(uri: str) -> str | None:
    """The path of `/x`, `x`, `file:/x` and `file:///x`; None if the URI is of another file system."""
    if local := _LOCAL.match(uri):
        return uri[local.end() :]
    return None if _SCHEME.match(uri) else os.path.abspath(uri)  # noqa: PTH100  resolve() would follow links


class LocalStore:
    def entries(self, folder: str) -> Iterator[str]:
        with _named(folder), os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name + ("/" if entry.is_dir() else "")

    def read(self, path: str) -> str:
        with _named(path):
            return Path(path).read_bytes().decode("utf-8", "replace")

    def modified(self, path: str) -> float:
        with _named(path):
            return Path(path).stat().st_mtime

    def create(self, path: str, text: str) -> bool:
        with _named(path):
            hidden = self._hidden(path, text)
            try:
                _link(hidden, path)
            except FileExistsError:
                return False
            finally:
                hidden.unlink(missing_ok=True)
            _sync(os.path.dirname(path))  # noqa: PTH120
        return True

    def replace(self, path: str, text: str) -> None:
        with _named(path):
            self._hidden(path, text).replace(path)
            _sync(os.path.dirname(path))  # noqa: PTH120

    def delete(self, path: str) -> None:
        with _named(path):
            Path(path).unlink()

    def caution(self, folder: str) -> str | None:
        probe = self._hidden(f"{folder}/probe", "")
        linked = probe.with_name(hidden_name("linked"))
        try:
            os.link(probe, linked)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return (
                f"the disk of {folder} has no hard links ({error.strerror}), so of two drivers that write a batch at "
                "the same moment both may win: a look before each write must do; run one driver, or give a checkpoint "
                "directory on another disk."
            )
        finally:
            probe.unlink()
            linked.unlink(missing_ok=True)
        return None

    def _hidden(self, path: str, text: str) -> Path:
        """Write a hidden file beside `path`, and its folder."""
        folder, _, name = path.rpartition("/")
        _make_folder(Path(folder))
        hidden = Path(folder, hidden_name(name))
        with hidden.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return hidden


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Make an error that may pass one that is worth another try."""
    try:
        yield
    except OSError as error:
        if error.errno not in _PASSING:
            raise
        raise StoreUnavailable(f"the disk of {path} cannot be used: {error.strerror}", path=path) from error


def hidden_name(name: str) -> str:
    # A random name, because drivers in containers can have the same process id.
    return f".{name}.{uuid4().hex}.tmp"


def _link(hidden: Path, path: str) -> None:
    try:
        os.link(hidden, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        hidden.rename(path)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each synced in the one above: a power cut must not take a folder away."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(str(folder.parent))


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
