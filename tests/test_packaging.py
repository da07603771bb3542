"""Two folders, one package: what is in the tree, what the links show, what a wheel holds, and what may be imported."""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from sysconfig import get_platform
from zipfile import ZipFile

import pytest

from kafka_direct.broker.fetch import librdkafka
from scripts import release
from scripts.wheels import wheel as wheel_file
from scripts.wheels.library import ROOM, compile_loops, functions
from scripts.wheels.target import Target
from scripts.wheels.wheel import file_name, with_library

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = SETUPTOOLS["package-dir"]

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


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


def build(kind, source, out, **environment):
    """What is built of a source distribution or of a folder, with the backend of this environment."""
    options = {"env": os.environ | environment}
    built = run("build", kind, "--no-isolation", "--outdir", str(out), str(source), **options)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = [path for path in out.iterdir() if path.is_file()]
    return path


@pytest.fixture(scope="module")
def unpacked_sdist(tmp_path_factory):
    """The source distribution, built from a copy of the tree, so that no build/ is left in it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in {folder.split("/")[0] for folder in FOLDERS.values()}:
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=ignore)
    for name in ["pyproject.toml", "README.md", "LICENSE", *(f"{m}.py" for m in SETUPTOOLS.get("py-modules", []))]:
        shutil.copy(ROOT / name, source)
    sdist = build("--sdist", source, out)
    with tarfile.open(sdist) as opened:
        opened.extractall(out, filter="data")
    return out / sdist.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def plain_wheel(unpacked_sdist, tmp_path_factory):
    """What installs from the source distribution on a machine without a compiler."""
    return build("--wheel", unpacked_sdist, tmp_path_factory.mktemp("plain"), CC="false")


@pytest.fixture(scope="module")
def wheel(plain_wheel):
    with ZipFile(plain_wheel) as opened:
        yield opened


def loops_of(wheel, folder):
    """The file of the compiled loops that an installation of the wheel reads records with."""
    with ZipFile(wheel) as opened:
        opened.extractall(folder)
    ask = (
        "from kafka_direct.broker.fetch import librdkafka\n"
        "library = librdkafka.load_librdkafka()\n"
        "print(librdkafka.__file__, library and library.path.name)"
    )
    environment = os.environ | {"PYTHONPATH": str(folder)}
    # In the folder itself: an editable installation comes after it.
    command = [sys.executable, "-c", ask]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    module, loops = done.stdout.split()
    assert Path(module).is_relative_to(folder), module
    return loops


def test_without_a_compiler_the_source_distribution_installs_without_the_loops(plain_wheel, tmp_path):
    """It reads slower, and says so in the log."""
    assert loops_of(plain_wheel, tmp_path) == "None"


@needs_compiler
def test_with_a_compiler_the_source_distribution_installs_with_the_loops(unpacked_sdist, tmp_path):
    """They serve the Python that built them."""
    built = build("--wheel", unpacked_sdist, tmp_path / "out")

    assert loops_of(built, tmp_path / "installed") == f"_records{EXTENSION_SUFFIXES[0]}"


@needs_compiler
def test_a_wheel_of_a_platform_serves_every_python(plain_wheel, tmp_path):
    """It has the modules and the loops, under a name that no Python's version is in, and can be built again."""
    target = Target(get_platform().replace("-", "_"), "", "_records.so")

    def made(path, loops):
        with ZipFile(plain_wheel) as plain:
            path.write_bytes(with_library(plain, target.tag, (f"{ROOM}/{target.library}", loops), 1_700_000_000))
        return path

    path = made(tmp_path / file_name(plain_wheel.name, target.tag), compile_loops(target, ("cc",)))
    again = made(tmp_path / "again.whl", compile_loops(target, ("cc",)))

    assert loops_of(path, tmp_path / "installed") == "_records.so"
    assert path.read_bytes() == again.read_bytes()
    with ZipFile(path) as wheel, ZipFile(plain_wheel) as plain:
        text = wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))).decode()
        assert set(wheel.namelist()) == {*plain.namelist(), f"{ROOM}/_records.so"}
    assert f"Root-Is-Purelib: false\nTag: py3-none-{target.tag}\n" in text
    installed = run("pip", "install", "--no-deps", "--no-index", "--target", str(tmp_path / "pip"), str(path))
    assert installed.returncode == 0, installed.stderr


@pytest.mark.parametrize("module", [release, wheel_file], ids=lambda module: module.__name__)
def test_doctests(module):
    """Every doctest gives what it shows."""
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 0


def test_a_library_shows_the_functions_that_are_called():
    """Windows shows no others than those that are marked."""
    called = {*librdkafka._LOOPS, *librdkafka._OBJECT_LOOPS}

    assert functions() == called | {"conf_init"}  # what librdkafka calls in a plugin


@needs_compiler
def test_loops_that_count_wrongly_are_not_used(plain_wheel, tmp_path):
    """On a platform where nobody tried them: Python reads the records instead."""
    source = (ROOT / ROOM / "records.c").read_text()
    (tmp_path / "wrong.c").write_text(source.replace("offsets[i] = records[i]->offset", "offsets[i] = i"))
    with ZipFile(plain_wheel) as opened:
        opened.extractall(tmp_path / "installed")
    library = tmp_path / "installed" / ROOM / "_records.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "wrong.c"], check=True)

    assert loops_of(plain_wheel, tmp_path / "installed") == "None"


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
