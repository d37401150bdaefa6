"""docs/workload.md: a workload from an empty directory to a judged result, as the page says."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT
from programs import ran

PAGE = (ROOT / "docs" / "workload.md").read_text()
LISTINGS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    modelzoo ")]
SHORT = {
    "run": ["--processes", "1", "--warmup", "0", "--iterations", "2", "--no-audit", "--threads", "1"],
    "validate": ["--limit", "3", "--threads", "1"],
    "weights": [],
}
"""Options that shorten a command without changing what it does."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Run a command of the page, shortened, beside a listing, in a directory of its own; its standard output."""

    def run(command: str, listing: str, *more: str) -> str:
        words = [*command.split()[1:], *(("--limit", "3") if "--validate" in command else ())]
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / "workload.py").write_text(listing)
        called = (sys.executable, "-m", "modelzoo", *words, *SHORT[words[0]], *more)
        done = ran(*called, cwd=tmp_path, PYTHONPATH=str(ROOT))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_listings_are_python_that_uses_public_modules() -> None:
    """Every listing is valid, and imports only what the page recommends."""
    for listing in LISTINGS:
        modules = {node.module for node in ast.walk(ast.parse(listing)) if isinstance(node, ast.ImportFrom)}
        assert modules <= {"modelzoo.workload", "modelzoo.validity", "torchvision.models", "transformers"}
    assert [command.split()[1] for command in COMMANDS] == ["run", "weights", "validate", "run", "weights", "run"]


def test_the_second_listing_is_judged(run: Callable[..., str]) -> None:
    """Its checkpoint is listed, and without network the verdict is the one that the page shows."""
    run(COMMANDS[1], LISTINGS[1])
    (line,) = run(COMMANDS[2], LISTINGS[1]).splitlines()
    assert re.match(r"\[VALID\] mobilenet tensor_error - [\d.]+ NUMERIC ONLY \(random weights: ", line)


def test_a_pickle_is_converted_and_used_by_the_first_listing(run: Callable[..., str], tmp_path: Path) -> None:
    """The commands for a checkpoint that an older torch refuses."""
    import torch
    from torchvision.models import mobilenet_v3_small

    torch.save(mobilenet_v3_small(weights=None).state_dict(), tmp_path / "mine.pth")
    run(COMMANDS[4], LISTINGS[0])
    assert run(COMMANDS[5], LISTINGS[0], "--precision", "fp32").startswith("[TARGET] mobilenet Time ")


def test_options_are_declared_as_the_page_says(tmp_path: Path) -> None:
    """The third listing, with the fields of the first in place of the dots."""
    from modelzoo.workload.discovery import load_workload

    fields = LISTINGS[0].partition("WORKLOAD = Workload(\n")[2].rpartition(")")[0].strip().rstrip(",")
    head = LISTINGS[0].partition("WORKLOAD")[0].replace("import Inputs,", "import Inputs, Option,")
    (tmp_path / "workload.py").write_text(head + LISTINGS[2].replace("...", fields))
    workload = load_workload(tmp_path)
    assert workload.option_values({"pixels": "160"}) == {"pixels": 160}
