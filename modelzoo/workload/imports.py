"""Check what a ``workload.py`` imports from modelzoo, so that an outdated import is reported in one line.

The whole file is checked before it runs: imports inside functions would otherwise fail minutes later, in a worker.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from modelzoo.errors import UsageError

PUBLIC = "modelzoo.workload"
RENAMED = {
    "background_bias": "solve_background_bias",
    "candidates": "count_candidates",
    "capture": "capture_outputs",
    "fit": "load_state_dict",
    "fit_normalization": "calibrate_batch_norm",
    "open_picture": "read_picture",
    "read_state": "read_state_dict",
    "scale_outputs": "standardize_outputs",
}
"""Former names of functions that workloads use."""


def check_imports(path: Path) -> None:
    """Check that the modules of modelzoo that a ``workload.py`` imports exist, and the names from modelzoo.workload.

    Raises:
        UsageError: one does not; the message gives the line of the file and the import to write instead.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # importing it reports the error
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_ours(node.module or ""):
            problem = _problem(str(node.module), [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            problems = (_problem(alias.name, []) for alias in node.names if _is_ours(alias.name))
            problem = next(filter(None, problems), "")
        else:
            continue
        if problem:
            raise UsageError(f"{path}, line {node.lineno}: {problem}")


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "modelzoo"


def _problem(module: str, names: Sequence[str]) -> str:
    """What is wrong with ``from module import names``, and what to write instead; empty if nothing is."""
    if not _exists(module):
        problem = f"there is no module {module}"
    elif module == PUBLIC and (missing := [name for name in names if not _offers(name)]):
        problem = f"{PUBLIC} has no {', '.join(missing)}"
    else:
        return ""
    current = [RENAMED.get(name, name) for name in names]
    if current and all(map(_offers, current)):
        return f"{problem}; write 'from {PUBLIC} import {', '.join(current)}'"
    return f"{problem}; import what a workload needs from {PUBLIC}, and judges from modelzoo.validity"


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent does not exist, or is not a package
        return False


def _offers(name: str) -> bool:
    """Whether ``from modelzoo.workload import NAME`` works."""
    public = importlib.import_module(PUBLIC)
    return name == "*" or hasattr(public, name) or _exists(f"{PUBLIC}.{name}")
