"""The compiled loops for a platform."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .target import Target

ROOM = "kafka_direct/broker/fetch"  # where the loops are, in the tree and in a wheel
_SOURCE = Path(__file__).parents[2] / ROOM / "records.c"
_CROSS_COMPILER = (sys.executable, "-m", "ziglang", "cc", "-target")


def compile_loops(target: Target, compiler: tuple[str, ...] | None = None) -> bytes:
    """The shared library, by Zig's C compiler or another one, without debugging information."""
    command = compiler or (*_CROSS_COMPILER, target.zig)
    with TemporaryDirectory() as folder:
        # Only names, no paths: what is compiled twice is the same.
        Path(folder, "records.c").write_bytes(_SOURCE.read_bytes())
        options = ("-shared", "-O2", "-g0", "-s", *(() if target.library.endswith(".dll") else ("-fPIC",)))
        subprocess.run(
            [*command, *options, *target.arguments, "-o", target.library, "records.c"], cwd=folder, check=True
        )
        return Path(folder, target.library).read_bytes()


def functions() -> frozenset[str]:
    """The functions that the library shows."""
    return frozenset(re.findall(r"^SHOWN .*?(\w+)\(", _SOURCE.read_text(), re.MULTILINE))
