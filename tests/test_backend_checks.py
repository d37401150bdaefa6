"""The checks that image builds make of their PyTorch, run with the one of this environment."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from places import ROOT


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the build for x86 refuses other machines")
def test_this_torch_passes_the_check_of_the_x86_image() -> None:
    """It is the same wheel; a wrong architecture is known to go unnoticed, so it is looked at first."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    for backend, code, said in (("x86", 0, "fp32 is fp32"), ("acl", 1, "FAILED: architecture")):
        command = [sys.executable, ROOT / "pytorch_env" / "assert-backend", backend]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
