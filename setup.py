"""What pyproject.toml cannot say: a wheel contains the workloads, which a checkout has at its top level, and leaves out
the notes that only developers of the suite read."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert", "llm")
FILES = ("workload.py", "*.txt")
"""What a workload consists of. Its README.md and its scripts, ``performance.py`` and ``validate.py``, are for a
checkout."""


class BuildWithWorkloads(build_py):
    """Copies each workload to ``modelzoo/workloads``; an editable installation finds it where it is."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            # Not the workloads: a result records the digest of their files.
            for module in sorted((Path(self.build_lib) / "modelzoo").rglob("*.py")):
                module.write_text(without_notes(module.read_text(encoding="utf-8")), encoding="utf-8")
            for source, target in self._copies():
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target), preserve_mode=False)

    def get_source_files(self) -> list[str]:
        """What a source distribution contains."""
        return [*super().get_source_files(), *(str(source) for source, _ in self._copies())]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(str(target) for _, target in self._copies())]

    def _copies(self) -> Iterator[tuple[Path, Path]]:
        into = Path(self.build_lib) / "modelzoo" / "workloads"
        for name in WORKLOADS:
            for pattern in FILES:
                for source in sorted(Path(name).glob(pattern)):
                    yield source, into / name / source.name


def without_notes(source: str) -> str:
    """Return a module without its comments and the docstrings of what is private.

    They are a twentieth of the wheel. Every other line stays where it is, so tracebacks name the lines of the checkout.
    """
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    for first, last in _private_docstrings(ast.parse(source)):
        lines[first - 1 : last] = ["\n"] * (last - first + 1)
    return "".join(lines)


def _private_docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """The first and the last line of each; a body that has nothing else keeps it."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name.startswith("_"):
            first = node.body[0]
            if ast.get_docstring(node) is not None and len(node.body) > 1:
                yield first.lineno, first.end_lineno or first.lineno


setup(cmdclass={"build_py": BuildWithWorkloads})
