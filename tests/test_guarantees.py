"""docs/exactly-once.md: each cell of its table is backed by a test, and each test that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/exactly-once.md").read_text()
NOTES = dict(re.findall(r"^(\d+)\. (.*(?:\n {3}.*)*)", TEXT, re.MULTILINE))


def test_each_test_that_is_named_is_there():
    """A test that was renamed or removed backs nothing."""
    for number, note in NOTES.items():
        files = [*re.findall(r"`([\w/]+\.py)", note)]
        sources = [
            path.read_text()
            for file in files
            for path in (ROOT / file, ROOT / "integration_tests" / file)
            if path.exists()
        ]
        assert files
        assert len(sources) == len(files), note
        assert files, number
        for name in re.findall(r"\b(test_\w+)(?!\.py)`", note):
            assert any(f"def {name}(" in source for source in sources), (number, name)


def test_each_cell_has_a_note():
    """What is said without a test says so in words."""
    rows = [line for line in TEXT.splitlines() if line.startswith(("| `", "| your own"))]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
    used = {number for cell in cells for number in re.findall(r"\[(\d+)\]", cell)}

    assert used == set(NOTES)
    assert [cell for cell in cells if re.match(r"(once|the older)\b", cell) and "[" not in cell] == []


FAULTS = (ROOT / "docs/decisions/0078-each-fault-and-its-test.md").read_text()
KNOWN = [*(f"A{n}" for n in range(1, 8)), *(f"B{n}" for n in range(8, 16)), "D"]


def test_each_fault_has_a_test():
    """What was taken out to see it fail is still in the code. If not, see the test fail again, and change the line."""
    rows = re.findall(
        r"^\| \W*([A-D]\d*)\b.* \| (.*) \| `([\w/]+\.py)`: ((?:`[^`]+`(?:, (?=`))?)+).* \| .+ \|$", FAULTS, re.MULTILINE
    )

    assert len(rows) == FAULTS.count("\n| ") - 1, "a line has another form"
    assert list(dict.fromkeys(number for number, *_ in rows)) == KNOWN
    for _, test, file, codes in rows:
        path, name = re.fullmatch(r"`(\w+/[\w/]+\.py)::(test_\w+)`", test).groups()
        assert f"def {name}(" in (ROOT / path).read_text(), test
        for code in re.findall("`([^`]+)`", codes):
            assert code in (ROOT / file).read_text(), (file, code)
