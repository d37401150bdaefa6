"""Every statement that the suite can make: the texts of its views, warnings and errors, one per line, sorted.

    .venv/bin/python benchmarks/oracle_statements.py > statements.txt

A statement is a string in the code with at least three words; what is filled in becomes ``{}``. Docstrings do not
count.
benchmarks/oracle/statements.txt has those of ``before-halving``.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "modelzoo"
PLACES = ("views", "cli", "warning.py", "results", "setting.py")
FEWEST_WORDS = 3


def text_of(node: ast.expr) -> str:
    """The text of a string or an f-string; empty for any other expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return ""


def statements(path: Path) -> Iterator[str]:
    """Those of a module, in its order."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)  # a docstring
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
        if node not in skipped and isinstance(node, ast.expr):
            text = " ".join(text_of(node).split())
            if len(text.split()) >= FEWEST_WORDS:
                yield text


def main() -> None:
    """Print them."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    paths = [path for place in PLACES for path in sorted((PACKAGE / place).rglob("*.py")) or [PACKAGE / place]]
    print("\n".join(sorted({text for path in paths for text in statements(path)})))


if __name__ == "__main__":
    main()
