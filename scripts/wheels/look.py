"""What is wrong with a wheel: its name and content, and the library in it, as the platform's loader will see it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING
from zipfile import ZipFile

import lief

from .library import ROOM, functions

if TYPE_CHECKING:
    from pathlib import Path

    from .target import Target

# What a system has without anything being installed.
_WINDOWS_OWN = re.compile(r"kernel32\.dll|api-ms-win-crt-[\w-]+\.dll", re.IGNORECASE)  # with Python's own C runtime
_MACOS_OWN = {"/usr/lib/libSystem.B.dylib"}
_MACOS_LEAST = [11, 0, 0]

lief.logging.disable()  # it mentions what it does not look for


def faults(path: Path, plain: Path, target: Target | None) -> list[str]:
    """What is wrong with the wheel, one sentence each. `plain` is the wheel without a library, and has no target."""
    library = [] if target is None else [f"{ROOM}/{target.library}"]
    with ZipFile(path) as wheel, ZipFile(plain) as other:
        found = _faults_of_content(wheel, other, library)
        found += _faults_of_tags(wheel, path)
        if target is not None and not found:
            found = _faults_of_library(path, wheel.read(library[0]), target)
    return [f"{path.name}: {fault}" for fault in found]


def _faults_of_content(wheel: ZipFile, plain: ZipFile, library: list[str]) -> list[str]:
    compiled = [name for name in wheel.namelist() if name.endswith((".so", ".dylib", ".dll", ".pyd"))]
    others = {name for name in wheel.namelist() if name not in compiled}
    found = _differ("libraries", compiled, library)
    found += _differ("other files", sorted(others), sorted(plain.namelist()))
    same = others.intersection(name for name in plain.namelist() if not name.endswith(("/RECORD", "/WHEEL")))
    return found + _differ("changed files", [name for name in sorted(same) if wheel.read(name) != plain.read(name)], [])


def _faults_of_tags(wheel: ZipFile, path: Path) -> list[str]:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
    said = sorted(re.findall(r"^Tag: (\S+)$", wheel.read(name).decode(), re.MULTILINE))
    in_name = sorted(f"py3-none-{platform}" for platform in path.stem.split("-")[-1].split("."))
    return [] if said == in_name else [f"says that it is {said}"]


def _faults_of_library(path: Path, library: bytes, target: Target) -> list[str]:
    binary = lief.parse(library)
    if isinstance(binary, lief.ELF.Binary):
        return _faults_of_elf(path, binary, target)
    if isinstance(binary, lief.MachO.Binary):
        return _faults_of_macho(binary, target)
    if isinstance(binary, lief.PE.Binary):
        return _faults_of_pe(binary)
    return [f"{target.library} is no library"]


def _faults_of_elf(path: Path, binary: lief.ELF.Binary, target: Target) -> list[str]:
    arch = {"x86_64": lief.ELF.ARCH.X86_64, "aarch64": lief.ELF.ARCH.AARCH64}[target.zig.split("-")[0]]
    found = _differ("machine", binary.header.machine_type, arch)
    shown = {symbol.name for symbol in binary.exported_symbols}
    found += _differ("functions", shown, functions())
    # Which of glibc's versions it needs.
    command = [sys.executable, "-m", "auditwheel", "show", path]
    asked = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    answer = " ".join(asked.stdout.split())
    is_consistent = f'consistent with the following platform tag: "{target.tag.split(".")[0]}".' in answer
    return found if is_consistent else [*found, f"auditwheel says: {answer}"]


def _faults_of_macho(binary: lief.MachO.Binary, target: Target) -> list[str]:
    is_arm = target.zig.startswith("aarch64")
    cpu = lief.MachO.Header.CPU_TYPE.ARM64 if is_arm else lief.MachO.Header.CPU_TYPE.X86_64
    found = _differ("machine", binary.header.cpu_type, cpu)
    shown = {symbol.name.removeprefix("_") for symbol in binary.exported_symbols if not symbol.name.startswith("__")}
    found += _differ("functions", shown, functions())
    found += _differ("least macOS", binary.build_version.minos, _MACOS_LEAST)
    # The first is the library's own name.
    own, *needed = [library.name for library in binary.libraries]
    found += _differ("name", own, f"@rpath/{target.library}") + _differ("libraries", set(needed), _MACOS_OWN)
    return found if not is_arm or binary.has_code_signature else [*found, "is not signed, as Apple's processors demand"]


def _faults_of_pe(binary: lief.PE.Binary) -> list[str]:
    found = _differ("machine", binary.header.machine, lief.PE.Header.MACHINE_TYPES.AMD64)
    shown = {entry.name for entry in binary.get_export().entries}
    found += _differ("functions", shown, functions())
    foreign = [needed.name for needed in binary.imports if not _WINDOWS_OWN.fullmatch(needed.name)]
    return found + _differ("foreign libraries", foreign, [])


def _differ(what: str, is_: object, expected: object) -> list[str]:
    return [] if is_ == expected else [f"{what}: {is_}, not {expected}"]
