"""Two folders, one package: what is in the tree, what the links show, what a wheel holds, and what may be imported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = SETUPTOOLS["package-dir"]


def modules():
    """Every module of the tree by its path in the package, as (path in the wheel, path in the tree)."""
    for package, folder in FOLDERS.items():
        for base, folders, names in os.walk(ROOT / folder):  # the links are not followed
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                if name.endswith(".py"):
                    path = Path(base, name)
                    yield Path(*package.split("."), path.relative_to(ROOT / folder)).as_posix(), path


def run(*command, **options):
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, **options)


def test_the_package_list_is_the_tree():
    """No wheel lacks a new folder: each one with modules has an `__init__.py` and stands in pyproject.toml."""
    in_tree = {path.rpartition("/")[0].replace("/", ".") for path, _ in modules()}

    assert sorted(in_tree) == SETUPTOOLS["packages"]
    assert all(path.parent.joinpath("__init__.py").exists() for _, path in modules())


@pytest.mark.parametrize("package", [package for package in FOLDERS if "." in package])
def test_the_links_are_the_map(package):
    """Type checkers and IDEs, which follow the links, see what setuptools, which follows the map, installs."""
    link = ROOT.joinpath(*package.split("."))

    assert link.is_symlink()
    assert link.readlink() == Path("..", FOLDERS[package])
    assert link.resolve() == ROOT / FOLDERS[package]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no git checkout")
@pytest.mark.parametrize("package", [package for package in FOLDERS if "." in package])
def test_the_links_are_committed_as_links(package):
    """A clone has links, not copies (mode 120000)."""
    path = package.replace(".", "/")
    listed = subprocess.run(["git", "ls-files", "-s", path], cwd=ROOT, capture_output=True, text=True, check=True)

    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["120000"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the tree, so that no build/ is left in it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in {folder.split("/")[0] for folder in FOLDERS.values()}:
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignore)
    for name in ["pyproject.toml", "README.md", "LICENSE", *(f"{m}.py" for m in SETUPTOOLS.get("py-modules", []))]:
        shutil.copy(ROOT / name, source)
    # The backend of this environment, if it can read our pyproject.toml; else pip fetches one.
    is_new = int(version("setuptools").split(".")[0]) >= 77
    built = run("build", "--wheel", *(["--no-isolation"] if is_new else []), "--outdir", str(out), str(source))
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = out.glob("*.whl")
    with ZipFile(path) as opened:
        yield opened


def test_the_wheel_has_every_module_and_no_other(wheel):
    """What is imported here is what users get, in the place from which it is imported."""
    in_wheel = {name for name in wheel.namelist() if name.endswith(".py")}

    assert in_wheel == {path for path, _ in modules()} | {f"{m}.py" for m in SETUPTOOLS.get("py-modules", [])}
    assert all(wheel.read(path) == file.read_bytes() for path, file in modules())


def test_the_wheel_takes_no_name_of_others(wheel):
    """`rate` and `offsets` are other people's packages on PyPI: at the top there is only what is named after us."""
    top = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}

    assert top == {"kafka_direct", *(f"{m}.py" for m in SETUPTOOLS.get("py-modules", []))}


def test_the_wheel_is_typed_and_licensed(wheel):
    """Type checkers of users see our types, and the licence comes along."""
    assert "kafka_direct/py.typed" in wheel.namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel.namelist())


def test_the_wheel_has_the_entry_points(wheel):
    """The command line and the pytest plugin point at modules that are in the wheel."""
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    declared = {
        "console_scripts": PYPROJECT["project"]["scripts"],
        **PYPROJECT["project"].get("entry-points", {}),
    }
    text = wheel.read(name).decode()

    for group, points in declared.items():
        assert f"[{group}]" in text
        for point, target in points.items():
            assert f"{point} = {target}" in text
            path = target.split(":")[0].replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & set(wheel.namelist())


def lint(snippet, filename):
    checked = run("ruff", "check", "--select", "TID251", "--stdin-filename", filename, "-", input=snippet, cwd=ROOT)
    return checked.stdout


@pytest.mark.parametrize("filename", ["kafka_direct/dstream/x.py", "tests/test_x.py", "examples/x.py"])
@pytest.mark.parametrize("name", ["rate", "offsets"])
def test_the_bare_names_are_banned(filename, name):
    """`import rate` works in a checkout, beside the folder, and in no installation: ruff refuses it."""
    for snippet in (f"import {name}", f"from {name} import x", f"import {name}.x", f"from {name}.x import y"):
        assert f"import kafka_direct.{name}" in lint(f"{snippet}\n", filename)


def test_the_full_names_are_not_banned():
    """The ban is on the bare names only."""
    snippet = "import kafka_direct.rate\nfrom kafka_direct.offsets import OffsetLog\nfrom kafka_direct import offsets\n"

    assert "All checks passed" in lint(snippet, "kafka_direct/dstream/x.py")
