"""A wheel's file, made from a wheel of Python's modules alone: another tag, another library, nothing else."""

from __future__ import annotations

import base64
import hashlib
import time
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo


def file_name(plain: str, tag: str) -> str:
    """The name of the wheel for a platform.

    >>> file_name("kafka_direct-1.0-cp311-cp311-linux_x86_64.whl", "win_amd64")
    'kafka_direct-1.0-py3-none-win_amd64.whl'
    """
    name, version, *_ = plain.split("-")
    return f"{name}-{version}-py3-none-{tag}.whl"


def with_library(plain: ZipFile, tag: str, library: tuple[str, bytes] | None, seconds: int) -> bytes:
    """The wheel of `plain` for the platforms of `tag`; its files have the same time, so that it can be built again."""
    files = {name: plain.read(name) for name in plain.namelist()}
    (about,) = {name.split("/")[0] for name in files if ".dist-info/" in name}
    if library is not None:
        files[library[0]] = library[1]
    files[f"{about}/WHEEL"] = _wheel_file(files[f"{about}/WHEEL"].decode(), tag, is_pure=library is None).encode()
    record = f"{about}/RECORD"
    del files[record]
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}\n" for name in sorted(files)]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    return _archive(files, seconds)


def _wheel_file(text: str, tag: str, *, is_pure: bool) -> str:
    kept = [line for line in text.splitlines() if line.split(":")[0] in {"Wheel-Version", "Generator"}]
    tags = [f"Tag: py3-none-{platform}" for platform in tag.split(".")]
    return "\n".join([*kept, f"Root-Is-Purelib: {str(is_pure).lower()}", *tags, ""])


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def _archive(files: dict[str, bytes], seconds: int) -> bytes:
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=9) as archive:
        # RECORD comes last, as its standard recommends.
        for name in sorted(files, key=lambda name: (name.endswith("/RECORD"), name)):
            entry = ZipInfo(name, time.gmtime(max(seconds, 315532800))[:6])  # zip's time begins in 1980
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[name])
    return out.getvalue()
