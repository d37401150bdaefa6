"""The checks that image builds make of their PyTorch, run with the one of this environment."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT


def check(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a check with this environment's interpreter and the suite's canary."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the build for x86 refuses other machines")
def test_this_torch_passes_the_check_of_the_x86_image() -> None:
    """It is the same wheel; a wrong architecture is known to go unnoticed, so it is looked at first."""
    done = check(sys.executable, ROOT / "pytorch_env" / "assert-backend", "x86")
    assert done.returncode == 0, done.stderr
    assert "fp32 is fp32" in done.stdout and "with bf16 tensors" in done.stdout
    done = check(sys.executable, ROOT / "pytorch_env" / "assert-backend", "acl")
    assert done.returncode == 1
    assert "FAILED: architecture" in done.stderr


def test_the_canary_of_source_builds_runs() -> None:
    """Tensors cast to bf16 must give its error wherever they are computed; without bf16 only fp32 is checked."""
    done = check(ROOT / "pytorch_env" / "source" / "canary", "openblas", ROOT)
    assert done.returncode == 0, done.stderr
    assert "conv" in done.stderr
