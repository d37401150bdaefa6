"""Benchmarks are not run by the tests, which assert no times; that they fit the package is tested."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from places import ROOT
from programs import ran

SCRIPTS = sorted(
    path.name for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_can_be_called(script: str, tmp_path: Path) -> None:
    """Its imports exist, torch is not among them, and ``--help`` says what it measures."""
    (tmp_path / "torch.py").write_text("raise ImportError('torch was imported')")
    done = ran(sys.executable, ROOT / "benchmarks" / script, "--help", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"benchmarks/{script}" in done.stdout
