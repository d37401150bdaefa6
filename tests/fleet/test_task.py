"""What a Dask worker runs on its host ends with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from measure.test_guardian import wait_for
from processes import processes_with
from toy_workloads import NUMPY_ENGINE, odd_numpy

KILLED = """
import os, signal, sys
from modelzoo.fleet import task
from modelzoo.measure.guardian import GUARDIAN
GUARDIAN.guard = lambda kind, name: os.kill(os.getpid(), signal.SIGKILL)
task.measure("call", tuple(sys.argv[1:]), os.getcwd())
"""


def test_a_command_ends_with_a_worker_that_is_killed_before_its_guardian_knows(
    tmp_path: Path, numpy_engine: None
) -> None:
    """Nobody else would end it, for as long as it measures."""
    pytest.importorskip("dask")
    work = odd_numpy(tmp_path / "odd", build="import time; time.sleep(600)")
    words = ["run", str(work.directory), "--engine", NUMPY_ENGINE, "--weights", str(work.directory / "weights.npz")]
    done = subprocess.run([sys.executable, "-c", KILLED, *words, "--precision", "fp32"], check=False)
    assert done.returncode == -9
    wait_for(lambda: not processes_with(str(work.directory)), seconds=20)
