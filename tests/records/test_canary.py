"""The record of the canary operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck


@pytest.mark.parametrize(
    ("matmul", "conv", "bf16", "fp32"),
    [
        ("bf16", "bf16", "active", "not fp32"),
        ("fp32", "bf16", "partly", "not fp32"),
        ("fp32", "fp32", "not active", "fp32"),
        ("reduced", "fp32", "not active", "not fp32"),
        ("failed", "bf16", "partly", "not fp32"),
        ("broken", "broken", "not active", "not fp32"),
    ],
)
def test_verdict(matmul: str, conv: str, bf16: str, fp32: str) -> None:
    """bf16 is active, and fp32 is fp32, only if all operators are."""
    checks = (OperatorCheck("matmul", 1e-3, CanaryLevel(matmul)), OperatorCheck("conv", 1e-3, CanaryLevel(conv)))
    assert Canary(checks).verdict("bf16") == bf16
    assert Canary(checks).verdict("fp32") == fp32


def test_image_builds_need_two_files(tmp_path: Path) -> None:
    """Builds mount the record and the module that runs the operators, and nothing else of the package."""
    for name in ("records/canary.py", "evidence/canary.py"):
        target = tmp_path / "modelzoo" / name
        target.parent.mkdir(parents=True)
        target.write_bytes((ROOT / "modelzoo" / name).read_bytes())
    # -S hides the installed packages, which may include modelzoo.
    command = [sys.executable, "-S", "-c", "from modelzoo.evidence.canary import level_of; print(level_of(1e-7))"]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "fp32\n", done.stderr
