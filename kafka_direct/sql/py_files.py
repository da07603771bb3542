"""`find_py_files`: what `--py-files` and `addPyFile` brought, in the process of a query's reader.

Spark 4.3 tells that process of the folder `streaming_job` below the one that has the files. It is not there, so a
function that `oauth_cb` names could be imported everywhere but there.
"""

from __future__ import annotations

import sys
from pathlib import Path

_TOLD = "streaming_job"


def find_py_files() -> None:
    """Add the folder that has the files, and the archives in it, to the places of modules."""
    sys.path.extend(path for path in _real(sys.path) if path not in sys.path)


def _real(paths: list[str]) -> list[str]:
    """The places that Spark means.

    >>> _real(["/lib", "/tmp/userFiles-1/streaming_job", "/tmp/userFiles-1/streaming_job/shop.zip"])
    ['/tmp/userFiles-1', '/tmp/userFiles-1/shop.zip']
    """
    told = [Path(path) for path in paths if _TOLD in Path(path).parts and not Path(path).exists()]
    return [str(Path(*(part for part in path.parts if part != _TOLD))) for path in told]
