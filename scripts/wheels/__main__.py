"""`make wheels`: the source distribution, and of it a wheel for each platform and one for all others, each looked at.

SOURCE_DATE_EPOCH is the time of the files in the wheels, else that of the last commit: the same commit makes the same
wheels.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from .library import ROOM, compile_loops
from .look import faults
from .target import TARGETS, Target
from .wheel import file_name, with_library

ROOT = Path(__file__).parents[2]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty or new folder")
    out: Path = arguments.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    if old := sorted(path.name for path in out.iterdir()):
        sys.exit(f"{out} holds {', '.join(old)}; remove what is there, so that a release is made of one build.")
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or _commit_seconds())
    with TemporaryDirectory() as folder:
        plain = _plain_wheel(_sdist(out), Path(folder))
        made = _write_wheels(plain, out, seconds)
    found = [fault for path, target in made for fault in faults(path, made[0][0], target)]
    for path, _ in made:
        print(f"{path.stat().st_size:>8}  {path.name}")
    if found:
        sys.exit("\n".join(found))


def _commit_seconds() -> str:
    return subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def _sdist(out: Path) -> Path:
    _build("--sdist", ROOT, out)
    (path,) = out.glob("*.tar.gz")
    return path


def _plain_wheel(sdist: Path, folder: Path) -> Path:
    """What setuptools makes of the source distribution where no compiler is."""
    with tarfile.open(sdist) as opened:
        opened.extractall(folder, filter="data")
    _build("--wheel", folder / sdist.name.removesuffix(".tar.gz"), folder, CC="false")
    (path,) = folder.glob("*.whl")
    return path


def _build(kind: str, source: Path, out: Path, **environment: str) -> None:
    command = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", out, source]
    done = subprocess.run(
        command, check=False, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stdout)


def _write_wheels(plain: Path, out: Path, seconds: int) -> list[tuple[Path, Target | None]]:
    made = []
    with ZipFile(plain) as modules:
        for target in (None, *TARGETS):
            tag = "any" if target is None else target.tag
            library = None if target is None else (f"{ROOM}/{target.library}", compile_loops(target))
            path = out / file_name(plain.name, tag)
            path.write_bytes(with_library(modules, tag, library, seconds))
            made.append((path, target))
    return made


if __name__ == "__main__":
    main()
