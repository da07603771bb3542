"""`Target`: a platform that has a wheel of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """`tag` is pip's name of the platform, `zig` the compiler's, `library` the file that librdkafka.py looks for."""

    tag: str
    zig: str
    library: str
    arguments: tuple[str, ...] = ()


# Python's and Spark's own limits: glibc 2.17 is CentOS 7's, macOS 11 the first on Apple's processors.
_NAMED = ("-Wl,-install_name,@rpath/_records.dylib",)  # else it is the path of this build
TARGETS = (
    Target("manylinux_2_17_x86_64.manylinux2014_x86_64", "x86_64-linux-gnu.2.17", "_records.so"),
    Target("manylinux_2_17_aarch64.manylinux2014_aarch64", "aarch64-linux-gnu.2.17", "_records.so"),
    Target("macosx_11_0_x86_64", "x86_64-macos.11.0", "_records.dylib", _NAMED),
    Target("macosx_11_0_arm64", "aarch64-macos.11.0", "_records.dylib", _NAMED),
    Target("win_amd64", "x86_64-windows-gnu", "_records.dll"),
)
