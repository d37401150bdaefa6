"""Where workers run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from toy_workloads import RANDOM, SHORT, mlp, runs_of

from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.request import Request


def test_a_worker_runs_with_the_interpreter_that_the_launcher_names(tmp_path: Path) -> None:
    """Another interpreter, here a script that leaves a trace and then becomes this one."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho started >>{tmp_path}/trace\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    request = Request(mlp(), (RANDOM,), SHORT, audit=False, launcher=LocalLauncher(str(python)))
    (run,) = runs_of(request)
    assert run.error is None
    assert (tmp_path / "trace").read_text().count("started") == 2, "the preparation and one measurement"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_worker_is_restricted_to_the_cpus_that_the_launcher_names() -> None:
    """The restriction holds from the start and is recorded."""
    cpu = max(os.sched_getaffinity(0))
    request = Request(mlp(), (RANDOM,), SHORT, audit=False, launcher=LocalLauncher(cpus=frozenset({cpu})))
    (run,) = runs_of(request)
    assert run.report is not None
    assert run.report.cpus == (cpu,)


def test_an_interpreter_that_does_not_exist_is_one_line() -> None:
    """It fails as a setting that cannot run, not with a traceback."""
    request = Request(mlp(), (RANDOM,), SHORT, launcher=LocalLauncher("/nonexistent/python"))
    (run,) = runs_of(request)
    assert run.error == "cannot start /nonexistent/python: No such file or directory; check that it is installed"
    assert run.error_kind == "EnvironmentProblem"


def test_a_suspended_worker_uses_no_cpu_and_goes_on_when_it_is_resumed() -> None:
    """All of its threads stop; a worker that has ended meanwhile is no error."""
    launcher = LocalLauncher()
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        launcher.suspend(process)
        _wait_for(process, psutil.STATUS_STOPPED)
        before = psutil.Process(process.pid).cpu_times().user
        time.sleep(0.2)
        assert psutil.Process(process.pid).cpu_times().user == before
        launcher.resume(process)
        _wait_for(process, psutil.STATUS_RUNNING)
    finally:
        process.kill()
        process.wait()
    launcher.suspend(process)
    launcher.resume(process)


def _wait_for(process: subprocess.Popen[bytes], status: str) -> None:
    deadline = time.monotonic() + 10
    while psutil.Process(process.pid).status() != status:
        assert time.monotonic() < deadline, f"the process is not {status}"
        time.sleep(0.01)
