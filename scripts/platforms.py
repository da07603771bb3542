"""The platforms that are tested: a PySpark on a Python and a Java, in a virtual environment of its own.

Environments are kept in the user's cache folder, where uv shares their files: twenty of them take the place of a few.
What is installed is the package itself, built from a copy of this tree, so with what it requires and as users get it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from kafka_direct.testing.jar import cache_folder

ROOT = Path(__file__).parent.parent
CACHE = cache_folder() / "platforms"
PYSPARKS = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")  # the last patch of each
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True, kw_only=True)
class Platform:
    """What a user may have. `python` is a program; `extra` is one of the package's own."""

    pyspark: str
    python: str
    lowest: bool = False  # the lowest versions that pyproject.toml allows, of all but PySpark
    java_home: str = ""  # of another Java than the usual one
    extra: str = ""

    @property
    def name(self) -> str:
        marks = [self.pyspark, python_version(self.python), *(["lowest"] if self.lowest else [])]
        return "-".join([*marks, *(["java"] if self.java_home else []), *([self.extra] if self.extra else [])])

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    @property
    def program(self) -> str:
        return str(self.folder / "bin/python")

    @cached_property
    def is_declared(self) -> bool:
        """Whether this PySpark says that it runs on this Python. Ask once it is installed."""
        (metadata,) = self.folder.glob("lib/python*/site-packages/pyspark-*.dist-info/METADATA")
        return f"Classifier: Programming Language :: Python :: {python_version(self.python)}\n" in metadata.read_text()

    def install(self) -> None:
        """Make the environment, or bring the kept one up to date with this tree."""
        if not Path(self.program).exists():
            _run(uv(), "venv", "--quiet", "--seed", "--python", self.python, str(self.folder))
        extra = f"[{self.extra}]" if self.extra else ""
        package = f"kafka-direct{extra} @ {_wheel(self.python).as_uri()}"
        wanted = [package, f"pyspark=={self.pyspark}", *(lowest(self.extra) if self.lowest else [])]
        again = ("--reinstall-package", "kafka-direct")
        _run(uv(), "pip", "install", "--quiet", "--python", self.program, *again, *wanted)

    def environment(self) -> dict[str, str]:
        """What programs run with here: nothing of another PySpark or of the tree."""
        kept = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "SPARK_HOME"}}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        java = {"JAVA_HOME": self.java_home} if self.java_home else {}
        return kept | {"PYSPARK_PYTHON": self.program, "PATH": path} | java


def pythons() -> list[str]:
    """The Pythons of this machine, oldest first: those of the variable PYTHONS, else those in the usual places."""
    given = os.environ.get("PYTHONS", "").split()
    if given:
        return sorted(given, key=lambda python: PYTHONS.index(python_version(python)))
    return [found for version in PYTHONS if (found := _find(version)) is not None]


def python_version(python: str) -> str:
    """As in "3.11"."""
    return _version(shutil.which(python) or python)


@cache
def _version(python: str) -> str:
    code = "import sys; print(*sys.version_info[:2], sep='.')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _find(version: str) -> str | None:
    """This one, one on the PATH, or pyenv's; a shim of pyenv's may be there and not work."""
    own = sys._base_executable if python_version(sys.executable) == version else None
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in (own, shutil.which(f"python{version}"), *map(str, reversed(kept))):
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return None


def lowest(extra: str = "") -> list[str]:
    """The lowest version of each package that is required; not of PySpark, nor of what an extra requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    others = {"pyspark", *(_name(text) for text in project["optional-dependencies"].get(extra, []))}
    return [text.replace(">=", "==") for text in project["dependencies"] if _name(text) not in others]


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0]


@cache
def uv() -> str:
    """uv, in an environment of its own: pip would copy half a gigabyte for each platform."""
    program = CACHE / "uv/bin/uv"
    if not program.exists():
        _run(sys.executable, "-m", "venv", str(CACHE / "uv"))
        _run(str(CACHE / "uv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv")
    return str(program)


@cache
def _wheel(python: str) -> Path:
    """The package, built for a Python from a copy of the tree: no folder of an earlier build is in it."""
    out = Path(_built().name, python_version(python))
    _run(uv(), "build", "--quiet", "--wheel", "--python", python, "--out-dir", str(out), str(_source()))
    (wheel,) = out.glob("*.whl")
    return wheel


@cache
def _source() -> Path:
    source = Path(_built().name, "source")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    return source


@cache
def _built() -> tempfile.TemporaryDirectory[str]:
    """For this run alone, and gone with it."""
    return tempfile.TemporaryDirectory(prefix="kafka-direct-wheels-")


def _run(*command: str) -> None:
    environment = os.environ | {"UV_CACHE_DIR": str(CACHE / "uv-cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
