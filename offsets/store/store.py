"""`Store`: a file system as the log needs it. `locate` finds the one of a path or URI.

| store | where | a new file is |
|---|---|---|
| `local.LocalStore` | a local disk, NFS | written under a hidden name, synced, and linked to its name |
| `arrow.ArrowStore` | S3, GCS, ABFS in a process without a JVM | uploaded, after a look that the name is free |
| `kafka_direct.hadoop.HadoopStore` | whatever the driver's Spark reaches | see its table |

A file is written once. It appears whole or not at all, and an acknowledged write survives a power cut. Of two writers
of one name exactly one wins; where a file system cannot promise that, `caution` says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka_direct.errors import StoreUnavailable

from .local import LocalStore, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias


class Store(Protocol):
    """Paths are full paths in the form of the store.

    Every method but `caution` raises FileNotFoundError only if the file or folder is not there, and another OSError for
    everything else: an error never means "not there".
    """

    def entries(self, folder: str) -> Iterator[str]:
        """The names in a folder, in no order; a subfolder ends with a slash."""

    def read(self, path: str) -> str:
        """The text of a file; what is not UTF-8 in it is replaced, and no decoder takes that for ours."""

    def modified(self, path: str) -> float:
        """When a file was last written, in seconds by the store's clock."""

    def create(self, path: str, text: str) -> bool:
        """Write a new file, and its folder. If the name is taken, write nothing and return False."""

    def replace(self, path: str, text: str) -> None:
        """Write a file, or overwrite it. For leases only: a store may show it empty for a moment."""

    def delete(self, path: str) -> None: ...

    def caution(self, folder: str) -> str | None:
        """What the store cannot promise, and what is done instead, in a sentence. None if it promises everything."""


class Location(NamedTuple):
    """A folder of a store."""

    store: Store
    path: str


Locate: TypeAlias = "Callable[[str], Location]"

SCHEME = re.compile("([A-Za-z][A-Za-z0-9+.-]*):/")
_LOGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^/@:\s]*(?::(\S*))?@")
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs"}  # abfs://container@account
_PARAMETERS = re.compile(r"(?<=\S)\?\S+")
_PORT = re.compile("[0-9]+/")


def locate(uri: str) -> Location:
    """The store and the folder of a path or URI in Spark's form, in a process without a JVM.

    Spark does not escape a URI: a space, `#` or `%20` in a `file:` URI is part of the folder's name.

    Raises:
        ConfigError: there is no file system for the URI without a JVM.
    """
    path = local_path(uri)
    if path is not None:
        return Location(LocalStore(), path)
    from .arrow import locate_arrow  # noqa: PLC0415  it loads pyarrow, which workers do not need

    return locate_arrow(uri)


def public(uri: str) -> str:
    """The URI without the user, the password and the parameters that it may have. A text may have URIs in it.

    >>> public("is s3://lake/o?key=x there? yes")
    'is s3://lake/o there? yes'
    >>> public("s3://key:se/cret@lake/orders?scheme=http"), public("abfs://container@account/orders")
    ('s3://lake/orders', 'abfs://container@account/orders')
    """
    return _PARAMETERS.sub("", _LOGIN.sub(_without_login, uri))


def _without_login(found: re.Match[str]) -> str:
    scheme, password = found.groups()
    is_login = scheme not in _CONTAINERS if password is None else scheme.startswith("s3") or not _PORT.match(password)
    return f"{scheme}://" if is_login else found[0]


def unavailable(path: str, error: object) -> StoreUnavailable:
    """The error of a store that did not do what it was asked."""
    return StoreUnavailable(
        f"the file system of {public(path)} cannot be used: {public(str(error))}", path=public(path)
    )
