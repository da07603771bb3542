"""`make release VERSION=0.2.0`: all that a release needs, on this machine. Nothing leaves it.

The fragments of changelog.d become a section of CHANGELOG.md, which is committed and tagged; the version of what is
built comes from the tag. Then: the source distribution and the wheels, looked at, with their checksums. The commands
that publish it, and those that take it back, are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
DIST = ROOT / "dist"
_UNRELEASED = "## Unreleased\n\n"  # lines from before there were fragments


def main() -> None:
    arguments = argparse.ArgumentParser(prog="make release", description=__doc__)
    arguments.add_argument("version", help="as 0.2.0 or 0.2.0rc1")
    version = arguments.parse_args().version
    tag = f"v{version}"
    _refuse_what_cannot_be_released(version, tag)

    before = _git("rev-parse", "HEAD")
    _run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    CHANGELOG.write_text(joined(CHANGELOG.read_text().lstrip()))  # towncrier puts empty lines before it
    _git("commit", "--quiet", "--all", "--message", f"release: {version}")
    _git("tag", "--annotate", tag, "--message", f"kafka_direct {version}")
    print(f"Committed and tagged {tag}. To take it back: git tag -d {tag} && git reset --hard {before}", flush=True)

    _run(sys.executable, "-m", "scripts.wheels", "--out", DIST)
    files = sorted(DIST.iterdir())
    if strange := [path.name for path in files if path.name.removesuffix(".tar.gz").split("-")[1] != version]:
        sys.exit(f"{', '.join(strange)}: this is not version {version}.")
    _run(sys.executable, "-m", "twine", "check", "--strict", *files)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print("Nothing has left this machine. To publish it:")
    print(f"  git push origin HEAD {tag}")
    print(f"  {Path(sys.executable).relative_to(ROOT)} -m twine upload dist/*.tar.gz dist/*.whl")


def joined(changelog: str) -> str:
    r"""The lines that nobody had released become part of the newest section.

    >>> joined("# Changelog\n\n## 1.0 (2026-11-20)\n\n- New.\n\n## Unreleased\n\n- Old.\n")
    '# Changelog\n\n## 1.0 (2026-11-20)\n\n- New.\n- Old.\n'
    """
    return changelog.replace(f"\n{_UNRELEASED}", "", 1)


def _refuse_what_cannot_be_released(version: str, tag: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        sys.exit(f"{version} is no version; give VERSION=0.2.0 or VERSION=0.2.0rc1.")
    if _git("tag", "--list", tag):
        sys.exit(f"{tag} is there already; give a new VERSION.")
    if changed := _git("status", "--porcelain"):
        sys.exit(f"The tree is not clean. Commit or remove:\n{changed}")
    if not list((ROOT / "changelog.d").glob("*.change.md")):
        sys.exit("changelog.d has no fragment: nothing has changed for users (CONTRIBUTING.md).")
    if DIST.exists() and any(DIST.iterdir()):
        sys.exit("dist/ is not empty; remove what is there, so that a release is made of one build.")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
