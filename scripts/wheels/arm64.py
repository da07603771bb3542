"""`make wheels-arm64`: the wheel for Linux on ARM reads records, run by Debian's Python for ARM in QEMU (a minute).

Needs `apt-get` and the network, and no rights: the packages are unpacked into a temporary folder, and nothing is
installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from .emulated import PROGRAM, install_for, one_wheel, read_there

_PYTHON = "3.11"  # of Debian 12
_PACKAGES = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6")


def main() -> None:
    arguments = argparse.ArgumentParser(prog="make wheels-arm64", description=__doc__)
    arguments.add_argument("--dist", type=Path, default=Path("dist"), help="where the wheels are")
    wheel = one_wheel(arguments.parse_args().dist, "aarch64")
    with TemporaryDirectory() as folder:
        here, root, site = Path(folder, "qemu"), Path(folder, "root"), Path(folder, "site")
        _unpack(_downloaded(Path(folder, "apt-arm64"), "arm64", _PACKAGES), root)
        _unpack(_downloaded(Path(folder, "apt"), "amd64", ("qemu-user-static",)), here)
        install_for(("manylinux_2_28_aarch64", "manylinux_2_17_aarch64"), wheel, _PYTHON, site)
        python = [here / "usr/bin/qemu-aarch64-static", "-L", root, root / f"usr/bin/python{_PYTHON}", PROGRAM]
        environment = os.environ | {"PYTHONPATH": str(site), "PYTHONUTF8": "1"}
        read_there([str(word) for word in python], environment, "Linux aarch64", "_records.so")


def _downloaded(folder: Path, architecture: str, packages: tuple[str, ...]) -> list[Path]:
    """Debian's packages and all they depend on, by lists of our own: the machine's are not touched."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures::": architecture,
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
    }
    apt = ["apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "install", "--yes", "--download-only", *packages], check=True, stdout=subprocess.DEVNULL)
    return list((folder / "cache/archives").glob("*.deb"))


def _unpack(packages: list[Path], root: Path) -> None:
    for package in packages:
        subprocess.run(["dpkg-deb", "--extract", package, root], check=True)


if __name__ == "__main__":
    main()
