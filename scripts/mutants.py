"""Breaks the ledger, the plans and the engine in many small ways, and sees the unit tests fail.

A mutant is the code with one change: a comparison negated, a constant off by one, a statement left out. It is written
into a copy of the tree, never into the checkout, and the unit tests of its module run there. If they fail or do not
end, the mutant is killed. If they pass, it has survived: a test is missing, or the code does nothing.

    python scripts/mutants.py                       # every second one: about five minutes on two cores
    python scripts/mutants.py --most 0              # all of them
    python scripts/mutants.py --only offsets/ledger # those of one file or folder
"""

from __future__ import annotations

import argparse
import ast
import copy
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# What all the tests import, and nothing of ours: a child process for each mutant then begins with it.
import confluent_kafka  # noqa: F401
import hypothesis.stateful  # noqa: F401
import pyarrow.fs  # noqa: F401
import pyspark.sql.datasource
import pyspark.streaming  # noqa: F401
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
CORES = 2
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=20", "--timeout-method=thread"]
OPTIONS += ["--hypothesis-profile=mutants", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of the imports above
# The tests of each module: its own first, and if they pass, those of the modules that use it.
USERS = "tests/engine/test_engine.py tests/dstream/test_cycle.py tests/sql/test_query_cycle.py"
LEDGER = "tests/offsets/test_history.py tests/offsets/test_ledger.py"
PLAN = "tests/offsets/test_plan.py tests/offsets/test_split.py tests/offsets/test_advance.py"
TESTS = {
    "offsets/ledger/*.py": (LEDGER, "tests/dstream/test_cycle.py"),
    "offsets/plan/*.py": (PLAN, f"tests/offsets/test_doctests.py {USERS}"),
    "kafka_direct/engine/*.py": ("tests/engine", f"tests/sql/test_pace.py {USERS}"),
    "kafka_direct/dstream/cycle.py": ("tests/dstream/test_cycle.py",),
    "kafka_direct/sql/query_cycle.py": ("tests/sql/test_query_cycle.py",),
}
# Mutants that change nothing which a test could see: the file, words of the line, words of the change, and the reason.
EQUIVALENT = (
    ("ledger/history.py", "default=-1", "1  ->  2", "ids are not negative"),
    ("ledger/ledger.py", "NEW: Action.PLAN", "->  Action.REPLAY", "nothing is unfinished there, so it is planned"),
    ("ledger/ledger.py", "NEW: Action.PLAN", "->  Action.BLANK", "no batch is known there, so it is planned"),
    ("ledger/ledger.py", "self._recovered_ms = 0", "0  ->  -1", "times are not negative"),
    ("ledger/ledger.py", "self._taken -= gone", "->  pass", "frees memory: no id is given twice"),
    ("ledger/ledger.py", "batch.time < time_ms or", "<=", "a batch of this very time is known by its time"),
    ("plan/outlook.py", "sorted(gone.items())", "->  list(", "what is gone is in order"),
    ("plan/micro_batch.py", "dict.fromkeys(pinned, 0)", "0  ->  -1", "no range goes backwards"),
    ("engine/group.py", "self._pending = None", "->  pass", "for a moment between two threads, which no test can hold"),
    ("engine/group.py", "None if error is None else (finished", "->  None if False", "what is committed is no news"),
    ("engine/group.py", "ThreadPoolExecutor(1,", "1  ->  2", "one commit runs at a time"),
    ("engine/group.py", "ends.get(partition, 0)", "0  ->  -1", "offsets are not negative"),
    ("engine/group.py", "wait_seconds: float = 0.0", "0.0  ->  -1.0", "neither waits"),
    ("engine/group.py", "shutdown(wait=True)", "shutdown()", "it waits unless told otherwise"),
    ("engine/pace.py", "in_flight: int = 0", "0  ->  -1", "no more than nothing is in flight"),
    ("sql/query_cycle.py", "GROUP_SECONDS = 2.0", "", "a figure of patience"),
    ("sql/query_cycle.py", "dict.fromkeys(lag, 0)", "0  ->  -1", "no range goes backwards"),
    ("sql/query_cycle.py", "time.monotonic_ns() //", "->  1000001", "a millionth more"),
    ("sql/query_cycle.py", "time.monotonic_ns() //", "->  999999", "a millionth less"),
    ("dstream/cycle.py", "self._remember_ms = 0", "", "the context says it before a batch ends"),
    ("dstream/cycle.py", "dict.fromkeys(self.next_offsets", "0  ->", "a wrong rate is refused whatever the lag"),
    ("dstream/cycle.py", "sorted(last.end())", "->  list(", "ranges are in order"),
)

COMPARISONS = {
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is], ast.In: [ast.NotIn],
    ast.NotIn: [ast.In], ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
ACTIONS = ("REPEAT", "REPLAY", "PLAN", "SKIP", "BLANK")


@dataclass(frozen=True)
class Mutant:
    """One changed module."""

    path: str
    line: int
    change: str
    source: str
    tests: tuple[str, ...]

    @property
    def is_equivalent(self) -> bool:
        line, _, change = self.change.partition("  ## ")
        return any(self.path.endswith(e[0]) and e[1] in line and e[2] in change for e in EQUIVALENT)


def variants(node: ast.AST, *, in_table: bool) -> Iterator[ast.AST]:  # noqa: C901, PLR0912
    """The nodes that may stand in place of this one."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(left, [other()], right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right):
            yield ast.BinOp(left, OPERATORS[type(op)](), right)
            if isinstance(op, ast.Sub):
                yield left
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in NAMES:
            yield ast.Call(ast.Name(NAMES[name]), args, keywords)
        case ast.Call(func=func, args=args, keywords=keywords):
            for at in range(len(keywords)):
                yield ast.Call(func, args, keywords[:at] + keywords[at + 1 :])
        case ast.Attribute(value=ast.Name(id="Action") as table, attr=attr) if in_table:
            yield from (ast.Attribute(table, other) for other in ACTIONS if other != attr)
        case ast.If(body=body, orelse=orelse) | ast.IfExp(body=body, orelse=orelse):
            yield from (type(node)(ast.Constant(value), body, orelse) for value in (True, False))
        case ast.comprehension(target=target, iter=iter_, ifs=[_, *_]):
            yield ast.comprehension(target, iter_, [], 0)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple()]):
            yield ast.Pass()


def places(tree: ast.AST, where: str = "") -> Iterator[tuple[ast.AST, str, int | None, ast.AST, str]]:
    """Every node that may be changed: its parent, the field and the index there, itself, and in which function."""
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "decorator_list"}:
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if not isinstance(node, ast.AST) or is_for_types:
                continue
            yield tree, field, index, node, where
            is_named = isinstance(node, ast.FunctionDef | ast.ClassDef)
            yield from places(node, f"{where}.{node.name}".strip(".") if is_named else where)


def mutants_of(path: Path, tests: tuple[str, ...]) -> Iterator[Mutant]:
    """The mutants of one file, in the order of their places."""
    source = path.read_text()
    tree, lines = ast.parse(source), source.splitlines()
    for parent, field, index, node, where in list(places(tree)):
        for other in variants(node, in_table=isinstance(parent, ast.Dict)):
            put(parent, field, index, other)
            line = getattr(node, "lineno", 0) or node.target.lineno  # a comprehension has no line of its own
            change = f"{where}: {lines[line - 1].strip()}  ## {first_line(node)}  ->  {first_line(other)}"
            yield Mutant(str(path.relative_to(ROOT)), line, change, ast.unparse(ast.fix_missing_locations(tree)), tests)
            put(parent, field, index, node)


def put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).strip().splitlines()[0]


def passes(tree: Path, tests: str) -> bool:
    """Whether these tests pass in this copy of the tree. They run in a child of this process, which spares imports."""
    child = os.fork()
    if child == 0:
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        with Path(os.devnull).open("w") as nowhere:
            for stream in (1, 2):
                os.dup2(nowhere.fileno(), stream)
        status = 1
        try:
            status = pytest.main([*OPTIONS, f"--basetemp={tree}/tmp", *tests.split()])
        finally:
            os._exit(status)  # not into the code of the parent, whatever pytest raised
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def survives(mutant: Mutant) -> bool:
    """Whether no test of the mutant's module fails."""
    tree = Path.cwd()
    changed = tree / mutant.path
    original = changed.read_text()
    write(changed, mutant.source)
    try:
        return all(passes(tree, tests) for tests in mutant.tests)
    finally:
        write(changed, original)


def write(path: Path, source: str) -> None:
    path.write_text(source)
    # Python would take the compiled file of the code before, if that was as long and written in the same second.
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def enter_a_copy(folder: str) -> None:
    """Give this worker process a copy of the tree."""
    tree = Path(folder) / str(os.getpid())
    for name in ("kafka_direct", "offsets", "rate", "tests"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    os.chdir(tree)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PATH", help="only of files whose path begins so")
    parser.add_argument("--most", type=int, default=600, metavar="N", help="so many, evenly spread; 0 is all")
    given = parser.parse_args()
    files = [(path, tests) for pattern, tests in TESTS.items() for path in sorted(ROOT.glob(pattern))]
    made = [m for path, tests in files for m in mutants_of(path, tests) if m.path.startswith(given.only)]
    able = [m for m in made if not m.is_equivalent]
    tried = able[:: -(-len(able) // given.most)] if given.most else able
    began, alive = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Pool(CORES, enter_a_copy, [folder]) as workers:
        unchanged = [Mutant(m.path, 0, "", (ROOT / m.path).read_text(), m.tests) for m in tried]
        if not all(workers.map(survives, {m.path: m for m in unchanged}.values())):
            sys.exit("The unit tests fail without a mutant.")
        for mutant, survived in zip(tried, workers.imap(survives, tried), strict=True):
            alive += survived
            print("SURVIVED" if survived else "killed  ", f"{mutant.path}:{mutant.line} {mutant.change}", flush=True)
    print(f"{len(made)} mutants, {len(made) - len(able)} of them change nothing.")
    print(f"{len(tried)} tried in {time.monotonic() - began:.0f} s: {len(tried) - alive} killed, {alive} survived.")
    return min(alive, 1)


if __name__ == "__main__":
    sys.exit(main())
