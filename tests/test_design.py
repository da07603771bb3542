"""DESIGN.md's map is the tree: each module stands in it once, in the row of its folder, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAP = (ROOT / "DESIGN.md").read_text().partition("## The map")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| `([\w/]+)/` \| ([^|]+) \| ([^|]+) \|$", MAP, re.MULTILINE)


def modules(folder):
    """The modules of a folder, and its C source."""
    files = [path for path in (ROOT / folder).iterdir() if path.suffix in {".py", ".c"}]
    return sorted(path.name.removesuffix(".py") for path in files if path.name != "__init__.py")


def folders():
    found = {path.parent for top in ("kafka_direct", "rate", "offsets") for path in (ROOT / top).rglob("*.py")}
    return sorted(path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts)


def test_each_folder_has_one_row():
    """A new room is in the map, and one that is gone is not."""
    links = {"kafka_direct/rate", "kafka_direct/offsets"}  # the same files once more

    assert sorted(folder for folder, _, _ in ROWS) == [f for f in folders() if not f.startswith(tuple(links))]


def test_each_row_has_the_modules_of_its_folder():
    """A reader who looks for a noun finds its file."""
    assert {folder: sorted(re.findall(r"`([\w.]+)`", files)) for folder, _, files in ROWS} == {
        folder: modules(folder) for folder, _, _ in ROWS
    }
