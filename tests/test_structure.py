"""The layout of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from places import ROOT

PACKAGE = ROOT / "modelzoo"


def test_a_module_is_read_in_one_view() -> None:
    """One of over 400 lines has more than one purpose."""
    long = [str(path) for path in PACKAGE.rglob("*.py") if len(path.read_text(encoding="utf-8").splitlines()) > 400]
    assert long == []


def test_no_sentence_is_built_where_facts_are() -> None:
    """Sentences are built in views, from facts; elsewhere only errors have text; a label with a name is none."""
    rooms = ("records", "results", "stats", "comparison")
    built = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for room in rooms
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for text in built_sentences(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert built == ["comparison/explanations.py: {}: reorders and set-up"]


def built_sentences(tree: ast.Module) -> Iterator[str]:
    """F-strings with at least three words that are not part of an error that is raised."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            above: ast.AST | None = node
            while above is not None and not isinstance(above, ast.Raise):
                above = parents.get(above)
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            text = "".join(map(str, parts))
            if above is None and len(re.findall("[A-Za-z]{2,}", text)) >= 3:
                yield text


PRINTING = {
    "cli/files.py",
    "cli/parser.py",  # the script of --print-completion
    *("engines/jittor/engine.py", "engines/jittor/model.py", "evidence/audit.py", "machine/sensors.py"),
}
"""Modules that may print: the door, and processes that answer another one or run on their own."""
DOORS = {
    "print": PRINTING,
    "Console": set(),
    "PlainConsole": {"document/terminal.py"},
    "RichText": {"document/terminal.py"},
    "Text.from_markup": set(),
    "csv.writer": {"document/written.py"},
}
"""Where each of these may be called."""


def test_what_reaches_a_terminal_or_a_spreadsheet_goes_through_one_door() -> None:
    """Which escapes it: names, warnings and errors may come from a stranger's result or another host."""
    found = {
        (call, str(path.relative_to(PACKAGE)))
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and (call := ast.unparse(node.func)) in DOORS
    }
    assert {(call, module) for call, module in found if module not in DOORS[call]} == set()
