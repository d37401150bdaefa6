"""Benchmarks are not run by the tests, which assert no times; that they fit the package is tested."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "benchmarks").glob("*.py") if path.name != "common.py")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_can_be_called(script: str) -> None:
    """Its imports exist, and ``--help`` says what it measures."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"benchmarks/{script}" in done.stdout
