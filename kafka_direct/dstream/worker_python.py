"""`require_package`: the Python that the workers will take has the package, seen before the first task.

A virtual environment that is not activated is the commonest first mistake: the driver is its Python, and the workers
take the `python3` of the PATH. Where they run on this machine that Python is asked, once. Workers on other machines
say it themselves (`kafka_direct.release`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from pyspark import SparkFiles

from kafka_direct.errors import ConfigError
from kafka_direct.release import VERSION

if TYPE_CHECKING:
    from pyspark import SparkContext

ANSWER_SECONDS = 60  # a machine may be slow; without an answer the tasks show what there is

# Imports nothing but what says the release, and looks where a worker looks: its folder, then what addPyFile brought.
_QUESTION = """
import sys
sys.path[1:1] = sys.argv[1:]
import json
from importlib.util import find_spec
has = {name: find_spec(name) is not None for name in ("kafka_direct", "confluent_kafka")}
release = None
if has["kafka_direct"]:
    try:
        from kafka_direct.release import VERSION as release
    except ImportError:
        release = "another release"
print(json.dumps({"python": list(sys.version_info[:3]), "has": has, "release": release}))
"""


def require_package(sc: SparkContext) -> None:
    """Refuse a context whose workers are on this machine, in a Python without this package or with another release.

    It costs a look at the PATH if the workers take the driver's own Python, else a start of theirs.

    Raises:
        ConfigError: it names that Python, what it lacks, and what to set.
    """
    if sc.master.partition("[")[0] != "local":  # the executors of local-cluster have folders of their own
        return
    python = shutil.which(sc.pythonExec)
    if python is not None and os.path.abspath(python) == sys.executable:  # noqa: PTH100  links tell environments apart
        return
    root = SparkFiles.getRootDirectory()
    files = [root, *(f"{root}/{name}" for name in sc._python_includes)]
    files += sc.environment.get("PYTHONPATH", "").split(os.pathsep)
    asked = (python, tuple(files))
    if asked in _right:
        return
    if (fault := _fault(*asked)) is None:
        _right.add(asked)
    else:
        taken = sc.pythonExec if python is None else python
        raise ConfigError(
            f"Spark's workers are to run {taken}, {fault}, and the driver runs {sys.executable}; set "
            f"PYSPARK_PYTHON={sys.executable} before the SparkContext is made, or activate that environment."
        )


# What was found right. What was wrong is asked again: it may have been mended meanwhile.
_right: set[tuple[str | None, tuple[str, ...]]] = set()


def _fault(python: str | None, files: tuple[str, ...]) -> str | None:
    """What is wrong with a Python for workers; None if nothing is known to be."""
    if python is None:
        return "which is not there"
    try:
        asked = subprocess.run(
            [python, "-c", _QUESTION, *files], capture_output=True, check=True, timeout=ANSWER_SECONDS
        )
        answer = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return judge(answer, sys.version_info[:3], VERSION)


def judge(answer: dict[str, Any], python: tuple[int, ...], release: str | None) -> str | None:
    """What is wrong with a worker's Python, as it answered; `python` and `release` are the driver's.

    >>> has = {"kafka_direct": True, "confluent_kafka": True}
    >>> judge({"python": [3, 11, 2], "has": has, "release": "1.0"}, (3, 11, 7), "1.0")
    >>> judge({"python": [3, 12, 1], "has": has, "release": "1.0"}, (3, 11, 7), "1.0")
    'which is Python 3.12.1 where the driver is 3.11.7'
    >>> judge({"python": [3, 11, 2], "has": {**has, "kafka_direct": False}, "release": None}, (3, 11, 7), "1.0")
    'which is Python 3.11.2 without kafka_direct'
    >>> judge({"python": [3, 11, 2], "has": has, "release": "0.9"}, (3, 11, 7), "1.0")
    'which has kafka_direct 0.9 where the driver has 1.0'
    """
    theirs = ".".join(map(str, answer["python"]))
    if missing := [name for name, is_there in answer["has"].items() if not is_there]:
        return f"which is Python {theirs} without {missing[0]}"
    if answer["python"][:2] != list(python[:2]):
        return f"which is Python {theirs} where the driver is {'.'.join(map(str, python))}"
    if None not in (release, answer["release"]) and answer["release"] != release:
        return f"which has kafka_direct {answer['release']} where the driver has {release}"
    return None
