"""`make oldest` and `make newest`: the unit tests, and an integration test or two for each front door, on one platform.

The oldest has the lowest versions of all that pyproject.toml requires, the newest the newest Python of this machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile

from platforms import PYSPARKS, ROOT, Platform, python_version, pythons

SHORT = ROOT / "integration_tests/short.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=["oldest", "newest"])
    which, more = parser.parse_known_args()
    found = pythons()
    if which.which == "newest" and python_version(found[-1]) == python_version(sys.executable):
        print(f"Python {python_version(sys.executable)} is the newest here, and that of make test: nothing more to run")
        return
    platform = {
        "oldest": Platform(pyspark=PYSPARKS[0], python=found[0], lowest=True, extra="dev"),
        "newest": Platform(pyspark=PYSPARKS[-1], python=found[-1], extra="dev"),
    }[which.which]
    print(f"PySpark {platform.pyspark}, Python {python_version(platform.python)}", flush=True)
    platform.install()
    # Workers find what a test gives them in the tree, behind what is installed.
    (packages,) = platform.folder.glob("lib/python*/site-packages")
    (packages / "tree_of_the_tests.pth").write_text(f"{ROOT}\n")
    # The program `pytest`, in a folder of its own: `python -m`, by which Spark starts its workers too, would import the
    # tree where it is started, and not what is installed.
    pytest = str(platform.folder / "bin/pytest")
    short = [str(ROOT / line) for line in SHORT.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        for tests in ([str(ROOT / "tests")], short):
            command = [pytest, "-n", "2", "--dist", "loadfile", *tests, *more]
            done = subprocess.run(command, cwd=folder, env=platform.environment(), check=False)
            if done.returncode != 0:
                sys.exit(done.returncode)


if __name__ == "__main__":
    main()
