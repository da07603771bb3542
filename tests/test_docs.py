"""The documents: every decision is in the index, and what a document names in the repository is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DECISIONS = ROOT / "docs/decisions"
DOCUMENTS = [*(ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md")), *(ROOT / "docs").rglob("*.md")]
FOLDERS = [path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")  # no colon: addresses of other sites are not followed
# A file or, with a slash at its end, a folder of the repository; a test function may follow the file.
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*(?:\.(?:py|c|md)|/))(?:::(\w+))?`")
DECISION = re.compile(r"docs/decisions/(\d{4})")


def name_of(document):
    return document.relative_to(ROOT).as_posix()


def test_each_decision_is_in_the_index():
    """The index has one line for each page, in the order of the numbers, with the title of the page."""
    pages = sorted(DECISIONS.glob("[0-9]*.md"))
    titles = [page.read_text().partition("\n")[0] for page in pages]
    entries = re.findall(r"^- \[(.*)\]\((.*)\): \S", (DECISIONS / "README.md").read_text(), re.MULTILINE)

    assert [("# " + title, file) for title, file in entries] == [
        (title, page.name) for title, page in zip(titles, pages, strict=True)
    ]


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("[0-9]*.md")), ids=name_of)
def test_each_decision_says_what_why_and_what_was_rejected(page):
    """A reader who questions a choice finds the reason and the alternatives under the same headings everywhere."""
    headings = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)

    assert headings in (["What", "Why", "Rejected"], ["What", "Why", "Rejected", "Figures"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_each_link_leads_to_a_file(document):
    """A file that moves takes the links to it along."""
    links = LINK.findall(document.read_text())

    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")], ids=name_of)
def test_each_path_is_in_the_repository(document):
    """So does a path in backticks; a test that is named with its file is defined there."""
    for path, function in PATH.findall(document.read_text()):
        assert (ROOT / path).exists(), path
        assert not function or f"def {function}(" in (ROOT / path).read_text(), (path, function)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_each_decision_that_is_cited_exists(document):
    """A number without a link leads to a page too."""
    for number in DECISION.findall(document.read_text()):
        assert list(DECISIONS.glob(f"{number}-*.md")), number
