"""Finds the Java that runs the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from .error import JavaMissingError

OLDEST = 17
INSTALL = {"darwin": "brew install openjdk@17"}
VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # 1.8.0_292 was Java 8


def find_java() -> str:
    """Return the `java` of JAVA_HOME, else of the PATH, once it is known to be new enough.

    Raises:
        JavaMissingError: there is none, or it is older than Kafka needs; the text has the command that installs one.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)  # noqa: PTH118
    where = f"in JAVA_HOME ({home})" if home else "on the PATH"
    if java is None:
        raise JavaMissingError(f"A local Kafka needs Java {OLDEST} or newer and there is none {where}: {_remedy()}")
    version = _version(java)
    if version < OLDEST:
        raise JavaMissingError(f"A local Kafka needs Java {OLDEST} or newer, {where} is Java {version}: {_remedy()}")
    return java


def _version(java: str) -> int:
    """The major version; 0 if the output is not Java's."""
    result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = VERSION.search(result.stderr)
    return int(match[1]) if match else 0


def _remedy() -> str:
    return f"install it with `{INSTALL.get(sys.platform, 'apt-get install openjdk-17-jre-headless')}`."
